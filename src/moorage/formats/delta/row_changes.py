"""Translates what MERGE, UPDATE, DELETE or INSERT did to a shadow into a commit of the real table. Pure.

Spark runs Delta's own statements on the shadow, so every feature of the table is kept: deletion vectors, row ids,
change data, column mapping, constraints. What is not understood is refused, as it is for rewrites.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import unquote

import msgspec
from msgspec.structs import replace

from moorage.core.errors import InvalidInput
from moorage.formats.delta.actions import VECTOR_ID_LENGTH, DomainMetadata, Metadata, SetTransaction
from moorage.formats.delta.deletion_vectors import vector_path
from moorage.formats.delta.file_actions import AddFile, ChangeFile, DeletionVector, RemoveFile, Texts
from moorage.formats.delta.offers import (
    Dropped,
    NewFile,
    OldFile,
    Target,
    Translation,
    commit_info,
    is_absolute,
    match_inputs,
    new_file,
    read_lines,
    remove_action,
    vector_id,
    with_row_ids,
)
from moorage.formats.delta.partition_values import original_values
from moorage.formats.delta.shadow import encode, metadata_action, shadow_configuration

OPERATIONS: Final = ("MERGE", "UPDATE", "DELETE", "WRITE")
_SCHEMA_PROPERTIES: Final = frozenset(("delta.columnMapping.maxColumnId",))
"""The properties that Delta changes together with the columns of a table."""
_VECTOR_FRAME: Final = 8
"""A vector in a file has four bytes of size before it and four of checksum after it."""


class _Change(ChangeFile, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    pass


class _Columns(Metadata, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    pass


class _Line(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The actions that a change of rows may consist of. Any other action is refused."""

    add: NewFile | None = None
    remove: OldFile | None = None
    cdc: _Change | None = None
    txn: SetTransaction | None = None
    meta_data: _Columns | None = None
    commit_info: dict[str, Any] | None = None
    domain_metadata: DomainMetadata | None = None


class RowChange(msgspec.Struct, frozen=True, kw_only=True):
    """What Spark committed to a shadow table."""

    info: dict[str, Any]
    added: tuple[AddFile, ...] = ()
    removed: tuple[RemoveFile, ...] = ()
    changes: tuple[ChangeFile, ...] = ()
    transactions: tuple[SetTransaction, ...] = ()
    metadata: Metadata | None = None

    @property
    def is_empty(self) -> bool:
        return not (self.added or self.removed or self.changes or self.transactions or self.metadata)

    @property
    def is_blind_append(self) -> bool:
        """Whether the new rows do not depend on the rows of the table. They can be added to any later version."""
        return self.info.get("isBlindAppend") is True and not self.removed

    def new_sizes(self) -> Iterator[tuple[str, int, bool]]:
        """The files that Spark wrote: path in the shadow's folder, bytes, and whether it may have more bytes."""
        for file in self.added:
            if not is_absolute(file.path):
                yield unquote(file.path), file.size, False
            elif file.deletion_vector is not None and file.deletion_vector.storage_type == "u":
                vector = file.deletion_vector
                yield vector_path(vector) or "", (vector.offset or 0) + vector.size_in_bytes + _VECTOR_FRAME, True
        for change in self.changes:
            yield unquote(change.path), change.size, False


_decode = msgspec.json.Decoder(_Line).decode


def read_row_change(data: bytes) -> RowChange:
    """Read the commit that Spark made in a shadow. InvalidInput if it is more than a change of rows."""
    lines = read_lines(data, _decode, "a change of rows", _refusal)
    info = next((line.commit_info for line in lines if line.commit_info is not None), {})
    operation = str(info.get("operation", ""))
    if operation not in OPERATIONS:
        raise _refusal(f"its operation is {operation!r}, not one of {', '.join(OPERATIONS)}")
    found = RowChange(
        info=info,
        added=tuple(line.add for line in lines if line.add is not None),
        removed=tuple(line.remove for line in lines if line.remove is not None),
        changes=tuple(line.cdc for line in lines if line.cdc is not None),
        transactions=tuple(line.txn for line in lines if line.txn is not None),
        metadata=next((line.meta_data for line in lines if line.meta_data is not None), None),
    )
    unchanging = [file.path for file in found.added if not file.data_change]
    unchanging += [file.path for file in found.removed if not file.data_change]
    if unchanging:
        raise _refusal(f"it states that {unchanging[0]!r} does not change rows of the table")
    return found


def translate_change(
    change: RowChange, files: Iterable[AddFile], to: Target, metadata: Metadata, also: SetTransaction | None = None
) -> Translation | Dropped:
    """The commit of the real table. `files` are those of its head that the change removes, `metadata` is its own.

    `also` is the transaction that the caller wants to be recorded with the change.
    """
    inputs = match_inputs(change.removed, files, to)
    if isinstance(inputs, Dropped):
        return inputs
    values = original_values([file.partition_values for file in inputs], to.schema, to.partition_columns)
    by_path = {unquote(gone.path): file for gone, file in zip(change.removed, inputs, strict=True)}
    kept = [_kept_file(file, by_path, to) for file in change.added if is_absolute(file.path)]
    new = [new_file(file, values, to, data_change=True) for file in change.added if not is_absolute(file.path)]
    new, mark_actions = with_row_ids(new, to)
    transactions = {txn.app_id: txn for txn in (*change.transactions, *([] if also is None else [also]))}
    actions = [
        {"commitInfo": commit_info(change.info, to, blind=change.is_blind_append)},
        *([] if change.metadata is None else [{"metaData": _new_metadata(change.metadata, metadata)}]),
        *mark_actions,
        *({"txn": replace(txn, last_updated=txn.last_updated or to.timestamp_ms)} for txn in transactions.values()),
        *({"add": file} for file in (*new, *kept)),
        *({"remove": _written(remove_action(file, to.timestamp_ms, data_change=True))} for file in inputs),
        *({"cdc": _written(_change_file(file, values, to))} for file in change.changes),
    ]
    data = b"".join(encode(action) + b"\n" for action in actions)
    return Translation(data=data, added=(*new, *kept), removed=tuple(inputs))


def _kept_file(file: AddFile, removed: Mapping[str, AddFile], to: Target) -> AddFile:
    """A file of the table that stays with another deletion vector. It keeps its path and its row ids."""
    old = removed.get(unquote(file.path))
    if old is None:
        raise _refusal(f"it adds {file.path!r}, which it did not remove before")
    vector = _new_vector(file.deletion_vector, old, to)
    return replace(old, deletion_vector=vector, stats=file.stats, tags=file.tags, data_change=True)


def _new_vector(vector: DeletionVector | None, old: AddFile, to: Target) -> DeletionVector:
    if vector is None:
        raise _refusal(f"it restores the deleted rows of {old.path!r}")
    if vector.storage_type == "i":
        return vector
    if vector.storage_type == "u":
        prefix, id = vector.path_or_inline_dv[:-VECTOR_ID_LENGTH], vector.path_or_inline_dv[-VECTOR_ID_LENGTH:]
        below = f"{to.folder}{prefix}".rstrip("/")
        return replace(vector, path_or_inline_dv=below + id)
    if old.deletion_vector is None or vector_id(vector, to.root) != vector_id(old.deletion_vector, to.root):
        raise _refusal(f"the deletion vector of {old.path!r} is not below the folder of the shadow")
    return old.deletion_vector


def _change_file(file: ChangeFile, values: Callable[[Texts], Texts], to: Target) -> ChangeFile:
    if is_absolute(file.path):
        raise _refusal(f"its change data {file.path!r} is not below the folder of the shadow")
    known = ChangeFile(**{name: getattr(file, name) for name in ChangeFile.__struct_fields__})
    return replace(known, path=to.folder + file.path, partition_values=values(file.partition_values))


def _written(action: RemoveFile | ChangeFile) -> dict[str, Any]:
    """The action with `dataChange`, which the protocol requires even where it is what readers assume."""
    return {**msgspec.to_builtins(action), "dataChange": action.data_change}


def _new_metadata(stated: Metadata, before: Metadata) -> dict[str, Any]:
    """The table's own metadata with the columns of the shadow: new columns, or the next value of an identity column."""
    expected = shadow_configuration(before.configuration)
    changed = {
        key
        for key in expected.keys() | stated.configuration.keys()
        if expected.get(key) != stated.configuration.get(key)
    }
    if changed - _SCHEMA_PROPERTIES:
        raise _refusal(f"it changes the property {min(changed - _SCHEMA_PROPERTIES)}")
    if stated.partition_columns != before.partition_columns or stated.format != before.format:
        raise _refusal("it changes the partitioning or the file format of the table")
    new = {key: stated.configuration[key] for key in changed if key in stated.configuration}
    return metadata_action(
        replace(before, schema_string=stated.schema_string), configuration={**before.configuration, **new}
    )


def _refusal(reason: str) -> InvalidInput:
    return InvalidInput(f"the change cannot be offered: {reason}", field="folder")
