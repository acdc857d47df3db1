"""Translates the commit of a shadow table into a commit of the real table. Pure.

What is not understood is refused: the server ratifies only what it can vouch for. What no longer applies, because the
table has changed, is dropped, and the worker plans again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any, Final, Protocol, TypeVar
from urllib.parse import unquote

import msgspec
from msgspec.structs import replace

from moorage.core.errors import InvalidInput
from moorage.formats.delta import row_ids
from moorage.formats.delta.actions import DomainMetadata
from moorage.formats.delta.file_actions import AddFile, DeletionVector, RemoveFile, Texts
from moorage.formats.delta.partition_values import normal, original_values, types_of
from moorage.formats.delta.schema import Schema
from moorage.formats.delta.shadow import absolute, absolute_vector, encode

OPERATIONS: Final = ("OPTIMIZE", "REORG")
_STATED: Final = ("operation", "operationParameters", "operationMetrics", "isolationLevel", "tags")
"""What is copied from the commitInfo of the shadow. The rest, such as timestamps, is ours."""


class NewFile(AddFile, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """An add action with no field that this module does not know."""


class OldFile(RemoveFile, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A remove action with no field that this module does not know."""


class _Line(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The actions that a rewrite may consist of. Any other action is refused."""

    add: NewFile | None = None
    remove: OldFile | None = None
    commit_info: dict[str, Any] | None = None
    domain_metadata: DomainMetadata | None = None


class ShadowCommit(msgspec.Struct, frozen=True, kw_only=True):
    """What Spark committed to a shadow table."""

    info: dict[str, Any]
    added: tuple[AddFile, ...]
    removed: tuple[RemoveFile, ...]


class Stats(msgspec.Struct, rename="camel"):
    num_records: int | None = None


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """The real table at its head, and the version that the rewrite is to become."""

    folder: str
    """The folder of the shadow, relative to the table's location; empty for a commit without one."""
    root: str
    """The table's location, as Hadoop prints it."""
    version: int
    timestamp_ms: int
    txn_id: str
    engine: str
    tracks_rows: bool
    row_id_mark: int | None
    schema: Schema
    partition_columns: tuple[str, ...]


class Translation(msgspec.Struct, frozen=True, kw_only=True):
    """A commit of the real table."""

    data: bytes
    added: tuple[AddFile, ...]
    removed: tuple[AddFile, ...]
    left_out: tuple[str, ...] = ()
    """Files that Spark wrote for partitions whose files have changed meanwhile, relative to the shadow's folder."""
    reason: str | None = None
    """Why partitions were left out."""


class Dropped(msgspec.Struct, frozen=True):
    """The rewrite no longer applies to the table."""

    reason: str


_decode = msgspec.json.Decoder(_Line).decode
_decode_stats = msgspec.json.Decoder(Stats).decode


def read_shadow_commit(data: bytes) -> ShadowCommit:
    """Read the commit that Spark made in a shadow. InvalidInput if it is more than a rewrite of files."""
    lines = read_lines(data, _decode, "a rewrite", _refusal)
    info = next((line.commit_info for line in lines if line.commit_info is not None), {})
    operation = str(info.get("operation", ""))
    if operation not in OPERATIONS:
        raise _refusal(f"its operation is {operation!r}, not {' or '.join(OPERATIONS)}")
    added = tuple(line.add for line in lines if line.add is not None)
    removed = tuple(line.remove for line in lines if line.remove is not None)
    changing = [file.path for file in added if file.data_change] + [file.path for file in removed if file.data_change]
    if changing:
        raise _refusal(f"it states that {changing[0]!r} changes rows of the table")
    return ShadowCommit(info=info, added=added, removed=removed)


class _Decoded(Protocol):
    @property
    def domain_metadata(self) -> DomainMetadata | None: ...


_L = TypeVar("_L", bound=_Decoded)


def read_lines(
    data: bytes, decode: Callable[[bytes], _L], what: str, refuse: Callable[[str], InvalidInput]
) -> list[_L]:
    """The actions of a shadow's commit. Refused if one is unknown, or changes another domain than that of row ids."""
    lines = []
    for number, text in enumerate(data.splitlines(), 1):
        if not text.strip():
            continue
        try:
            line = decode(text)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise refuse(f"line {number} is not an action of {what} ({error})") from None
        domain = line.domain_metadata
        if domain is not None and domain.domain != row_ids.DOMAIN:
            raise refuse(f"it changes the domain {domain.domain}")
        lines.append(line)
    return lines


def new_sizes(added: Iterable[AddFile]) -> Iterator[tuple[str, int, bool]]:
    """The files that Spark wrote: path in the shadow's folder, bytes, and whether it may have more bytes."""
    return ((unquote(file.path), file.size, False) for file in added)


def input_paths(removed: Iterable[RemoveFile], root: str) -> list[str]:
    """The paths of the rewritten files as the real log may spell them. `root` is the table's Hadoop location."""
    found: list[str] = []
    for file in removed:
        decoded = unquote(file.path)
        if not decoded.startswith(unquote(root)):
            raise _refusal(f"it removes {file.path!r}, which is not a file of the table")
        found.append(decoded)
    return found


def translate(commit: ShadowCommit, files: Iterable[AddFile], to: Target) -> Translation | Dropped:
    """The commit of the real table. `files` are those files of its head that `input_paths` names.

    Partitions with a file that is no longer what Spark has read are left out.
    """
    matched = list(_match(commit.removed, files, to))
    changed = next((found for _, found in matched if isinstance(found, str)), None)
    inputs = [found for _, found in matched if isinstance(found, AddFile)]
    added, info = commit.added, commit.info
    if changed is not None:
        kept = _unchanged_partitions(commit, matched, to)
        inputs = [file for file in inputs if kept(file.partition_values)]
        added = tuple(file for file in added if kept(file.partition_values))
        if not inputs:
            return Dropped(changed)
        info = {name: value for name, value in info.items() if name != "operationMetrics"}  # they count all files
    values = original_values([file.partition_values for file in inputs], to.schema, to.partition_columns)
    outputs = [new_file(file, values, to, data_change=False) for file in added]
    _require_same_rows(inputs, outputs)
    outputs, mark_actions = with_row_ids(outputs, to)
    actions = [
        {"commitInfo": commit_info(info, to, blind=False)},
        *mark_actions,
        *({"add": file} for file in outputs),
        *({"remove": remove_action(file, to.timestamp_ms, data_change=False)} for file in inputs),
    ]
    data = b"".join(encode(action) + b"\n" for action in actions)
    written = {file.path for file in added}
    return Translation(
        data=data,
        added=tuple(outputs),
        removed=tuple(inputs),
        left_out=tuple(file.path for file in commit.added if file.path not in written),
        reason=changed,
    )


_Matched = tuple[RemoveFile, AddFile | str]


def _match(removed: Iterable[RemoveFile], files: Iterable[AddFile], to: Target) -> Iterator[_Matched]:
    """Each file that a shadow's commit removes, with the file of the table, or why it is not what Spark has read."""
    active = {unquote(absolute(file.path, to.root)): file for file in files}
    for gone in removed:
        file = active.get(unquote(gone.path))
        if file is None:
            yield gone, f"{_name(gone.path)} is no longer a file of the table"
        elif vector_id(file.deletion_vector, to.root) != vector_id(gone.deletion_vector, to.root):
            yield gone, f"rows of {_name(gone.path)} were deleted meanwhile"
        else:
            yield gone, file


def match_inputs(removed: Iterable[RemoveFile], files: Iterable[AddFile], to: Target) -> list[AddFile] | Dropped:
    """The files of the table that a shadow's commit removes, or why they are no longer what Spark has read."""
    inputs: list[AddFile] = []
    for _, found in _match(removed, files, to):
        if isinstance(found, str):
            return Dropped(found)
        inputs.append(found)
    return inputs


def _unchanged_partitions(
    commit: ShadowCommit, matched: Iterable[_Matched], to: Target
) -> Callable[[Texts | None], bool]:
    """Whether a rewrite still applies to the partition with some values.

    Spark joins files of one partition only, so the new files of a partition have the rows of its old files. Where the
    log does not prove it, as with values that Spark writes in an unknown way, the rewrite applies to none.
    """
    types = types_of(to.schema, to.partition_columns)
    before, after, changed = Counter[Hashable](), Counter[Hashable](), set[Hashable]()

    def is_unchanged(values: Texts | None) -> bool:
        return values is not None and normal(values, types) not in changed

    def none_is(values: Texts | None) -> bool:
        return False

    for gone, found in matched:
        values = gone.partition_values if isinstance(found, str) else found.partition_values
        if values is None:
            return none_is
        if isinstance(found, str):
            changed.add(normal(values, types))
        elif (rows := rows_of(found)) is not None:
            before[normal(values, types)] += rows
        else:
            return none_is
    for file in commit.added:
        if (rows := rows_of(file)) is None:
            return none_is
        after[normal(file.partition_values, types)] += rows
    proven = all(before[key] == after[key] for key in {*before, *after} - changed)
    return is_unchanged if proven else none_is


def new_file(file: AddFile, values: Callable[[Texts], Texts], to: Target, *, data_change: bool) -> AddFile:
    """A file that Spark wrote into the folder of the shadow, as a file of the real table."""
    if is_absolute(file.path):
        raise _refusal(f"it adds {file.path!r}, which is not below the folder of the shadow")
    if file.deletion_vector is not None:
        raise _refusal(f"its new file {file.path!r} has a deletion vector")
    return replace(
        AddFile(**{name: getattr(file, name) for name in AddFile.__struct_fields__}),
        path=to.folder + file.path,
        partition_values=values(file.partition_values),
        data_change=data_change,
    )


def is_absolute(path: str) -> bool:
    """Whether a path of a shadow's log names a file outside the shadow."""
    return path.startswith("/") or ":" in path.partition("/")[0]


def rows_of(file: AddFile) -> int | None:
    """The rows of a file that are not deleted, or None if it does not state their number."""
    try:
        rows = None if file.stats is None else _decode_stats(file.stats).num_records
    except (msgspec.MsgspecError, RecursionError):
        return None
    if rows is None:
        return None
    return rows - (0 if file.deletion_vector is None else file.deletion_vector.cardinality)


def _require_same_rows(inputs: list[AddFile], outputs: list[AddFile]) -> None:
    before, after = [rows_of(file) for file in inputs], [rows_of(file) for file in outputs]
    if None in before or None in after:
        return  # a writer without statistics
    if sum(filter(None, before)) != sum(filter(None, after)):
        raise _refusal(f"its files had {sum(filter(None, before))} rows and have {sum(filter(None, after))} now")


def with_row_ids(outputs: list[AddFile], to: Target) -> tuple[list[AddFile], list[dict[str, Any]]]:
    """New files with row ids above the head's mark, and the action that raises the mark if the table tracks rows."""
    if not to.tracks_rows:
        return [replace(file, base_row_id=None, default_row_commit_version=None) for file in outputs], []
    mark = row_ids.NO_HIGH_WATER_MARK if to.row_id_mark is None else to.row_id_mark
    numbered = []
    for file in outputs:
        rows = rows_of(file)
        if rows is None:
            raise _refusal(f"its new file {file.path!r} does not state numRecords, but the table tracks rows")
        numbered.append(replace(file, base_row_id=mark + 1, default_row_commit_version=to.version))
        mark += rows
    if not numbered:
        return [], []
    configuration = encode({"rowIdHighWaterMark": mark}).decode()
    return numbered, [{"domainMetadata": DomainMetadata(row_ids.DOMAIN, configuration)}]


def remove_action(file: AddFile, at_ms: int, *, data_change: bool) -> RemoveFile:
    """The removal of a file, with everything that the table knows about it."""
    return RemoveFile(
        path=file.path,
        data_change=data_change,
        deletion_timestamp=at_ms,
        extended_file_metadata=True,
        partition_values=file.partition_values,
        size=file.size,
        stats=file.stats,
        tags=file.tags,
        deletion_vector=file.deletion_vector,
        base_row_id=file.base_row_id,
        default_row_commit_version=file.default_row_commit_version,
    )


def commit_info(stated: Mapping[str, Any], to: Target, *, blind: bool) -> dict[str, Any]:
    """The commitInfo of the real commit: what the shadow states about the operation, in the version of the table."""
    return {
        "inCommitTimestamp": to.timestamp_ms,
        "timestamp": to.timestamp_ms,
        **{name: stated[name] for name in _STATED if name in stated},
        "readVersion": to.version - 1,
        "isBlindAppend": blind,
        "engineInfo": to.engine,
        "txnId": to.txn_id,
    }


def vector_id(vector: DeletionVector | None, root: str) -> str | None:
    """Equal for one vector in the real log and in the log of a shadow."""
    return None if vector is None else unquote(absolute_vector(vector, root).unique_id)


def _name(path: str) -> str:
    return repr(unquote(path).rpartition("/")[2])


def _refusal(reason: str) -> InvalidInput:
    return InvalidInput(f"the rewrite cannot be offered: {reason}", field="folder")
