"""New checkpoints of a Delta log: the state of a version as Parquet, in the v2 layout with sidecars or the classic one.

The protocol calls the layout of a table's checkpoints its checkpoint policy. A v2 checkpoint has a unique name and
stores file actions in sidecars; a classic one is a single file. In both, files are actions without a data change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from moorage.core.errors import Damaged
from moorage.formats.delta.actions import Metadata, Protocol
from moorage.formats.delta.contract import CHECKPOINT_POLICY
from moorage.formats.delta.file_actions import RemoveFile
from moorage.formats.delta.log_commits import Commit
from moorage.formats.delta.replay import FILES, TEXTS, VECTOR, LogState, key_of

LOG: Final = "_delta_log/"
V2_FEATURE: Final = "v2Checkpoint"
SIDECAR_ROWS: Final = 100_000
_STRINGS: Final = pa.list_(pa.string())
_REMOVES: Final = pa.struct(
    [
        ("path", pa.string()),
        ("deletionTimestamp", pa.int64()),
        ("dataChange", pa.bool_()),
        ("extendedFileMetadata", pa.bool_()),
        ("partitionValues", TEXTS),
        ("size", pa.int64()),
        ("stats", pa.string()),
        ("tags", TEXTS),
        ("deletionVector", VECTOR),
        ("baseRowId", pa.int64()),
        ("defaultRowCommitVersion", pa.int64()),
    ]
)
_TABLE_ACTIONS: Final = (
    ("txn", pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())])),
    (
        "metaData",
        pa.struct(
            [
                ("id", pa.string()),
                ("name", pa.string()),
                ("description", pa.string()),
                ("format", pa.struct([("provider", pa.string()), ("options", TEXTS)])),
                ("schemaString", pa.string()),
                ("partitionColumns", _STRINGS),
                ("configuration", TEXTS),
                ("createdTime", pa.int64()),
            ]
        ),
    ),
    (
        "protocol",
        pa.struct(
            [
                ("minReaderVersion", pa.int32()),
                ("minWriterVersion", pa.int32()),
                ("readerFeatures", _STRINGS),
                ("writerFeatures", _STRINGS),
            ]
        ),
    ),
    (
        "domainMetadata",
        pa.struct([("domain", pa.string()), ("configuration", pa.string()), ("removed", pa.bool_())]),
    ),
)
_V2_ACTIONS: Final = (
    ("checkpointMetadata", pa.struct([("version", pa.int64()), ("tags", TEXTS)])),
    (
        "sidecar",
        pa.struct(
            [("path", pa.string()), ("sizeInBytes", pa.int64()), ("modificationTime", pa.int64()), ("tags", TEXTS)]
        ),
    ),
)
_encode = msgspec.json.Encoder().encode


class NewFile(msgspec.Struct, frozen=True):
    """A file to write, by its path in the table."""

    path: str
    data: bytes


class NewCheckpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A checkpoint that is not written yet."""

    version: int
    sidecars: tuple[NewFile, ...]
    """They must be durable before the checkpoint is written."""
    main: NewFile
    hint: bytes
    """The content of `_last_checkpoint`."""
    files: int
    tombstones: int

    @property
    def bytes(self) -> int:
        return len(self.main.data) + sum(len(file.data) for file in self.sidecars)


def is_v2(protocol: Protocol, metadata: Metadata) -> bool:
    """Whether the checkpoints of a table have sidecars: it has the feature, and does not ask for classic ones."""
    return V2_FEATURE in protocol.features and metadata.configuration.get(CHECKPOINT_POLICY, "v2").lower() != "classic"


def new_checkpoint(
    state: LogState,
    tombstones: Iterable[RemoveFile],
    *,
    now_ms: int,
    new_id: Callable[[], str],
    parsed: Mapping[str, pa.Array] = MappingProxyType({}),
) -> NewCheckpoint:
    """The checkpoint of a state. The runtime grows with the number of files, so do not call it on the event loop.

    `parsed`: further fields of `add`, such as `stats_parsed`, for each file in the order of `state.files()`.
    """
    if state.protocol is None or state.metadata is None:
        raise Damaged(f"version {state.version} has no protocol or no metaData")
    removed = list(tombstones)
    rows = [
        {"protocol": _protocol(state.protocol)},
        {"metaData": _metadata(state.metadata)},
        *({"txn": _fields(txn)} for txn in state.transactions.values()),
        *({"domainMetadata": _fields(domain) | {"removed": False}} for domain in state.domains.values()),
    ]
    add = pa.struct([*FILES, *(pa.field(name, values.type) for name, values in parsed.items())])
    file_schema = pa.schema([("add", add), ("remove", _REMOVES)])
    of_files = _file_actions(state.files(), parsed, removed, file_schema)
    name = f"{LOG}{state.version:020}.checkpoint"
    if not is_v2(state.protocol, state.metadata):
        schema = pa.schema([*_TABLE_ACTIONS, *file_schema])
        main = NewFile(f"{name}.parquet", _parquet([_rows(rows, schema), *(_aligned(t, schema) for t in of_files)]))
        return _with_hint(state, main, (), len(rows), removed, now_ms=now_ms, v2=False)
    sidecars = tuple(NewFile(f"{LOG}_sidecars/{new_id()}.parquet", _parquet([table])) for table in of_files)
    rows += [{"checkpointMetadata": {"version": state.version}}]
    rows += [{"sidecar": _sidecar(file, now_ms)} for file in sidecars]
    schema = pa.schema([*_TABLE_ACTIONS, *_V2_ACTIONS, *file_schema])
    main = NewFile(f"{name}.{new_id()}.parquet", _parquet([_rows(rows, schema)]))
    return _with_hint(state, main, sidecars, len(rows), removed, now_ms=now_ms, v2=True)


def _with_hint(
    state: LogState,
    main: NewFile,
    sidecars: tuple[NewFile, ...],
    table_actions: int,
    removed: Sequence[RemoveFile],
    *,
    now_ms: int,
    v2: bool,
) -> NewCheckpoint:
    hint: dict[str, Any] = {
        "version": state.version,
        "size": table_actions + state.count + len(removed),
        "sizeInBytes": len(main.data) + sum(len(file.data) for file in sidecars),
        "numOfAddFiles": state.count,
    }
    if v2:
        hint["v2Checkpoint"] = {
            "path": main.path.removeprefix(LOG),
            "sizeInBytes": len(main.data),
            "modificationTime": now_ms,
        }
    return NewCheckpoint(
        version=state.version,
        sidecars=sidecars,
        main=main,
        hint=_encode(hint),
        files=state.count,
        tombstones=len(removed),
    )


def _file_actions(
    files: pa.Table, parsed: Mapping[str, pa.Array], removed: Sequence[RemoveFile], schema: pa.Schema
) -> Iterator[pa.Table]:
    """The file actions in tables with the columns `add` and `remove`, each for one sidecar."""
    add, remove = schema.types
    unchanged = FILES.names.index("dataChange")
    for start in range(0, files.num_rows, SIDECAR_ROWS):
        some = files.slice(start, SIDECAR_ROWS).combine_chunks()
        columns = [column.combine_chunks() for column in some.columns]
        columns[unchanged] = pa.repeat(pa.scalar(value=False), some.num_rows)
        columns += [values.slice(start, SIDECAR_ROWS) for values in parsed.values()]
        adds = pa.StructArray.from_arrays(columns, fields=list(add))
        yield pa.table([adds, pa.nulls(some.num_rows, remove)], schema)
    for start in range(0, len(removed), SIDECAR_ROWS):
        rows = [_fields(file) | {"dataChange": False} for file in removed[start : start + SIDECAR_ROWS]]
        yield pa.table([pa.nulls(len(rows), add), pa.array(rows, remove)], schema)


def _rows(rows: list[dict[str, Any]], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_pylist(rows, schema)


def _aligned(table: pa.Table, schema: pa.Schema) -> pa.Table:
    columns = [
        table[field.name] if field.name in table.column_names else pa.nulls(table.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema)


def _parquet(tables: Sequence[pa.Table]) -> bytes:
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, tables[0].schema, compression="snappy") as writer:
        for table in tables:
            writer.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _sidecar(file: NewFile, now_ms: int) -> dict[str, Any]:
    name = file.path.rpartition("/")[2]
    return {"path": name, "sizeInBytes": len(file.data), "modificationTime": now_ms}


def _protocol(protocol: Protocol) -> dict[str, Any]:
    """Features are absent, not empty, in a protocol of a version that has none."""
    fields = _fields(protocol)
    for names, version, since in (("readerFeatures", "minReaderVersion", 3), ("writerFeatures", "minWriterVersion", 7)):
        fields[names] = list(fields.get(names, ())) if fields[version] >= since else None
    return fields


def _metadata(metadata: Metadata) -> dict[str, Any]:
    empty: dict[str, Any] = {"partitionColumns": [], "configuration": {}}
    stated = metadata.format
    return empty | _fields(metadata) | {"format": {"provider": stated.provider, "options": stated.options}}


def _fields(action: object) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(action)
    return found


# --- tombstones ------------------------------------------------------------------------------------


def add_tombstones(
    known: Mapping[str, RemoveFile], commits: Iterable[Commit], *, oldest_ms: int
) -> dict[str, RemoveFile]:
    """The files that were removed and not added again, after these commits. Removes before `oldest_ms` have expired."""
    found = dict(known)
    for commit in commits:
        for file in commit.files:
            if isinstance(file, RemoveFile):
                found[key_of(file)] = file
            else:
                found.pop(key_of(file), None)
    return {key: file for key, file in found.items() if (file.deletion_timestamp or 0) > oldest_ms}


def read_tombstones(data: bytes, source: str) -> dict[str, RemoveFile]:
    """The removed files in a Parquet file of a checkpoint, by key."""
    try:
        file = pq.ParquetFile(pa.BufferReader(data))
        if "remove" not in file.schema_arrow.names:
            return {}
        column = file.read(columns=["remove"])["remove"]
        rows = column.filter(column.is_valid()).to_pylist(maps_as_pydicts="strict")
        removed = msgspec.convert([_without_nulls(row) for row in rows], list[RemoveFile])
    except (pa.ArrowException, OSError, KeyError, UnicodeError, msgspec.ValidationError) as error:
        raise Damaged(f"{source} is damaged: {error}", file=source) from error
    return {key_of(each): each for each in removed}


def _without_nulls(row: dict[str, Any]) -> dict[str, Any]:
    return {
        name: _without_nulls(value) if name == "deletionVector" else value
        for name, value in row.items()
        if value is not None
    }
