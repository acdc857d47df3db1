"""A writer of Delta tables that does what Spark does in a table's folder: 0.json, staged commits, publishing."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from uuid import uuid4

Action = dict[str, Any]

SPEC_FEATURES = ("catalogManaged", "inCommitTimestamp", "vacuumProtocolCheck")
ALL_FEATURES = ("catalogManaged", "deletionVectors", "inCommitTimestamp", "v2Checkpoint", "vacuumProtocolCheck")
WRITERS_ONLY = ("inCommitTimestamp", "domainMetadata", "rowTracking", "clustering", "appendOnly", "invariants")
COLUMNS = ({"name": "id", "type": "long", "nullable": True, "metadata": {}},)
FIXED_PROPERTIES = {
    "delta.enableInCommitTimestamps": "true",
    "delta.checkpointPolicy": "v2",
    "delta.enableDeletionVectors": "true",
    "delta.checkpoint.writeStatsAsJson": "true",
    "delta.checkpoint.writeStatsAsStruct": "true",
}
METADATA_ID = "6f1e1d1a-7f0c-4c62-9f5b-0d9a3c1e5b77"


def lines(*actions: Action) -> bytes:
    return b"".join(json.dumps(action, separators=(",", ":")).encode() + b"\n" for action in actions)


def folder_of(location: str) -> Path:
    return Path(unquote(location.removeprefix("file:")).replace("///", "/", 1))


# --- actions -----------------------------------------------------------------------------------


def commit_info(timestamp_ms: int, operation: str = "WRITE", **more: Any) -> Action:
    info = {"inCommitTimestamp": timestamp_ms, "operation": operation, "txnId": str(uuid4()), "isBlindAppend": True}
    return {"commitInfo": {**info, **more}}


def protocol(features: tuple[str, ...] = ALL_FEATURES, *, reader: int = 3, writer: int = 7) -> Action:
    readers = [feature for feature in features if feature not in WRITERS_ONLY]
    return {
        "protocol": {
            "minReaderVersion": reader,
            "minWriterVersion": writer,
            "readerFeatures": readers,
            "writerFeatures": list(features),
        }
    }


def configuration(table_id: str, **more: str | None) -> dict[str, str]:
    """Return the properties that every table needs. None removes one."""
    properties = {**FIXED_PROPERTIES, "io.unitycatalog.tableId": table_id, **more}
    return {key: value for key, value in properties.items() if value is not None}


def metadata(
    properties: dict[str, str],
    columns: tuple[Action, ...] = COLUMNS,
    *,
    partition_columns: tuple[str, ...] = (),
    **more: Any,
) -> Action:
    return {
        "metaData": {
            "id": METADATA_ID,
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": list(columns)}),
            "partitionColumns": list(partition_columns),
            "configuration": properties,
            "createdTime": 1_700_000_000_000,
            **more,
        }
    }


def add(path: str | None = None, **more: Any) -> Action:
    file = {"path": path or f"part-{uuid4()}.parquet", "partitionValues": {}, "size": 1199}
    return {"add": {**file, "modificationTime": 1_700_000_000_000, "dataChange": True, **more}}


def remove(path: str, **more: Any) -> Action:
    return {"remove": {"path": path, "deletionTimestamp": 1_700_000_000_000, "dataChange": True, **more}}


def domain(name: str, content: Any, *, removed: bool = False) -> Action:
    return {"domainMetadata": {"domain": name, "configuration": json.dumps(content), "removed": removed}}


# --- files -------------------------------------------------------------------------------------


def write_first(folder: Path, *actions: Action) -> bytes:
    """Write 0.json directly under its final name."""
    log = folder / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    data = lines(*actions)
    (log / f"{0:020}.json").write_bytes(data)
    return data


def stage(folder: Path, version: int, timestamp_ms: int, *actions: Action, name: str | None = None) -> Action:
    """Write a staged commit, and return its commit info in the form of the specification."""
    body = actions if actions and "commitInfo" in actions[0] else (commit_info(timestamp_ms), *(actions or (add(),)))
    return stage_bytes(folder, version, timestamp_ms, lines(*body), name=name)


def stage_bytes(folder: Path, version: int, timestamp_ms: int, data: bytes, *, name: str | None = None) -> Action:
    staged = folder / "_delta_log" / "_staged_commits"
    staged.mkdir(parents=True, exist_ok=True)
    name = name or f"{version:020}.{uuid4()}.json"
    (staged / name).write_bytes(data)
    return {
        "version": version,
        "timestamp": timestamp_ms,
        "file_name": name,
        "file_size": len(data),
        "file_modification_timestamp": timestamp_ms + 1,
    }


def publish(folder: Path, info: Action) -> None:
    """Copy a ratified commit to its final name, as clients do: atomically, and without overwriting a file."""
    log = folder / "_delta_log"
    temporary = log / f".{uuid4()}.tmp"
    temporary.write_bytes((log / "_staged_commits" / info["file_name"]).read_bytes())
    with suppress(FileExistsError):
        os.link(temporary, log / f"{info['version']:020}.json")
    temporary.unlink()


def published(folder: Path) -> list[int]:
    """Return the versions that a reader finds by listing the folder."""
    return sorted(int(path.stem) for path in (folder / "_delta_log").glob("*.json"))
