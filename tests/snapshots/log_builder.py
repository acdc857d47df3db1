"""Delta logs written by hand, action by action, as the protocol specifies.

The builder shares no code with what it tests: actions are plain dictionaries, and the few lines of
`reconciled` compute the state of a checkpoint.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq

from moorage.snapshots.table_ref import TableRef

Action = dict[str, Any]
CheckpointKind = Literal[
    "classic", "in parts", "v2 parquet", "v2 parquet with sidecars", "v2 json", "v2 json with sidecars", "classic v2"
]
CHECKPOINT_KINDS: tuple[CheckpointKind, ...] = (
    "classic",
    "in parts",
    "v2 parquet",
    "v2 parquet with sidecars",
    "v2 json",
    "v2 json with sidecars",
    "classic v2",
)

PROTOCOL: Action = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
FEATURES = {
    "minReaderVersion": 3,
    "minWriterVersion": 7,
    "readerFeatures": ["deletionVectors", "v2Checkpoint"],
    "writerFeatures": ["deletionVectors", "v2Checkpoint", "domainMetadata", "inCommitTimestamp"],
}


def metadata(
    columns: dict[str, Any] | None = None,
    *,
    partitions: Iterable[str] = (),
    configuration: dict[str, str] | None = None,
) -> Action:
    fields = [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in (columns or {"id": "long"}).items()
    ]
    return {
        "metaData": {
            "id": str(UUID(int=1)),
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": fields}),
            "partitionColumns": list(partitions),
            "configuration": configuration or {},
            "createdTime": 1,
        }
    }


IN_COMMIT_TIMES = {"delta.enableInCommitTimestamps": "true"}


def add(path: str, **more: Any) -> Action:
    return {"add": {"path": path, "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True, **more}}


def remove(path: str, **more: Any) -> Action:
    return {"remove": {"path": path, "deletionTimestamp": 1, "dataChange": True, **more}}


def vector(name: str, **more: Any) -> dict[str, Any]:
    return {"storageType": "u", "pathOrInlineDv": name.rjust(20, "0"), "sizeInBytes": 40, "cardinality": 2, **more}


def statistics(rows: int = 10, **columns: tuple[Any, Any, int]) -> str:
    """Statistics as writers store them: the minimum, the maximum and the number of nulls of each column."""
    return json.dumps(
        {
            "numRecords": rows,
            "minValues": {name: least for name, (least, _, _) in columns.items() if least is not None},
            "maxValues": {name: greatest for name, (_, greatest, _) in columns.items() if greatest is not None},
            "nullCount": {name: nulls for name, (_, _, nulls) in columns.items()},
        }
    )


def lines(actions: Iterable[Action]) -> bytes:
    return b"".join(json.dumps(action).encode() + b"\n" for action in actions)


def reconciled(commits: Iterable[Iterable[Action]]) -> list[Action]:
    """The actions of a checkpoint after these commits, including tombstones."""
    latest: dict[tuple[Any, ...], Action] = {}
    for action in (action for commit in commits for action in commit):
        ((kind, value),) = action.items()
        match kind:
            case "add" | "remove":
                vector = value.get("deletionVector") or {}
                key: tuple[Any, ...] = ("file", value["path"], vector.get("pathOrInlineDv"), vector.get("offset"))
            case "txn":
                key = ("txn", value["appId"])
            case "domainMetadata":
                key = ("domain", value["domain"])
            case "metaData" | "protocol":
                key = (kind,)
            case _:
                continue
        latest.pop(key, None)
        latest[key] = action
    return [action for action in latest.values() if not action.get("domainMetadata", {}).get("removed")]


class LogBuilder:
    """The folder of a table, and the commits written to it so far."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "_delta_log"
        self.log.mkdir(parents=True, exist_ok=True)
        self.commits: list[list[Action]] = []

    def ref(self, **known: Any) -> TableRef:
        return TableRef(id="t", location=f"file://{self.folder}/", **known)

    def commit(self, *actions: Action, at_ms: int | None = None, publish: bool = True) -> int:
        """Add the next version. An unpublished one is not written: `bytes_of` returns what would be staged."""
        version = len(self.commits)
        self.commits.append(list(actions))
        if publish:
            self.write(f"{version:020}.json", self.bytes_of(version), at_ms=at_ms)
        return version

    def bytes_of(self, version: int) -> bytes:
        return lines(self.commits[version])

    def write(self, name: str, data: bytes, *, at_ms: int | None = None) -> None:
        path = self.log / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
        if at_ms is not None:
            os.utime(path, ns=(0, at_ms * 1_000_000))

    def delete_commits(self, *versions: int) -> None:
        """Delete the commit files of these versions, as a client that cleans the log does."""
        for version in versions:
            (self.log / f"{version:020}.json").unlink()

    def compact(self, first: int, last: int) -> None:
        self.write(f"{first:020}.{last:020}.compacted.json", lines(reconciled(self.commits[first : last + 1])))

    def hint(self, version: int) -> None:
        self.write("_last_checkpoint", json.dumps({"version": version, "size": 1}).encode())

    def checkpoint(self, version: int, kind: CheckpointKind = "classic") -> None:
        actions = reconciled(self.commits[: version + 1])
        files = [action for action in actions if "add" in action or "remove" in action]
        rest = [action for action in actions if action not in files]
        start = f"{version:020}.checkpoint"
        marker: list[Action] = [{"checkpointMetadata": {"version": version}}]
        match kind:
            case "classic":
                self.write(f"{start}.parquet", parquet(actions))
            case "in parts":
                for number, part in enumerate((actions[0::3], actions[1::3], actions[2::3]), 1):
                    self.write(f"{start}.{number:010}.{3:010}.parquet", parquet(part))
            case "v2 parquet":
                self.write(f"{start}.{UUID(int=2)}.parquet", parquet(marker + actions))
            case "v2 parquet with sidecars":
                self.write(f"{start}.{UUID(int=2)}.parquet", parquet(marker + rest + self._sidecars(files)))
            case "v2 json":
                self.write(f"{start}.{UUID(int=2)}.json", lines(marker + actions))
            case "v2 json with sidecars":
                self.write(f"{start}.{UUID(int=2)}.json", lines(marker + rest + self._sidecars(files)))
            case "classic v2":
                self.write(f"{start}.parquet", parquet(marker + rest + self._sidecars(files)))

    def _sidecars(self, files: list[Action]) -> list[Action]:
        sidecars = []
        for number, part in enumerate((files[0::2], files[1::2])):
            data = parquet(part, columns=("add", "remove"))
            name = f"{UUID(int=100 + number)}.parquet"
            self.write(f"_sidecars/{name}", data)
            sidecars.append({"sidecar": {"path": name, "sizeInBytes": len(data), "modificationTime": 1}})
        return sidecars


_TEXTS = pa.map_(pa.string(), pa.string())
_VECTOR = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)
ADD = pa.struct(
    [
        ("path", pa.string()),
        ("partitionValues", _TEXTS),
        ("size", pa.int64()),
        ("modificationTime", pa.int64()),
        ("dataChange", pa.bool_()),
        ("stats", pa.string()),
        ("tags", _TEXTS),
        ("deletionVector", _VECTOR),
        ("baseRowId", pa.int64()),
        ("defaultRowCommitVersion", pa.int64()),
        ("clusteringProvider", pa.string()),
    ]
)
_COLUMNS = {
    "add": ADD,
    "remove": pa.struct(
        [
            ("path", pa.string()),
            ("deletionTimestamp", pa.int64()),
            ("dataChange", pa.bool_()),
            ("deletionVector", _VECTOR),
        ]
    ),
    "metaData": pa.struct(
        [
            ("id", pa.string()),
            ("name", pa.string()),
            ("description", pa.string()),
            ("format", pa.struct([("provider", pa.string()), ("options", _TEXTS)])),
            ("schemaString", pa.string()),
            ("partitionColumns", pa.list_(pa.string())),
            ("createdTime", pa.int64()),
            ("configuration", _TEXTS),
        ]
    ),
    "protocol": pa.struct(
        [
            ("minReaderVersion", pa.int32()),
            ("minWriterVersion", pa.int32()),
            ("readerFeatures", pa.list_(pa.string())),
            ("writerFeatures", pa.list_(pa.string())),
        ]
    ),
    "txn": pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())]),
    "domainMetadata": pa.struct([("domain", pa.string()), ("configuration", pa.string()), ("removed", pa.bool_())]),
    "checkpointMetadata": pa.struct([("version", pa.int64()), ("tags", _TEXTS)]),
    "sidecar": pa.struct(
        [("path", pa.string()), ("sizeInBytes", pa.int64()), ("modificationTime", pa.int64()), ("tags", _TEXTS)]
    ),
}


def parquet(actions: Iterable[Action], *, columns: Iterable[str] = _COLUMNS, add: pa.DataType = ADD) -> bytes:
    """Actions as a checkpoint stores them: one row for each action, one column for each kind."""
    schema = pa.schema([(name, add if name == "add" else _COLUMNS[name]) for name in columns])
    rows = [{kind: _row(value) for kind, value in action.items()} for action in actions]
    stream = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema), stream, row_group_size=7)
    return stream.getvalue()


def _row(value: dict[str, Any]) -> dict[str, Any]:
    return {name: _maps(name, inner) for name, inner in value.items()}


def _maps(name: str, value: Any) -> Any:
    if name in ("partitionValues", "tags", "configuration") and isinstance(value, dict):
        return list(value.items())
    return {"provider": value["provider"], "options": []} if name == "format" else value
