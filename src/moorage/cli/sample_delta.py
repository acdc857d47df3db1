"""The managed Delta table of the sample lake, written as a Delta client writes one.

The client gets a location from the server, writes data files and commits there, and the server ratifies each commit.
"""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from datetime import date
from typing import TYPE_CHECKING, Any, Final

from moorage.cli.sample import CATALOG

if TYPE_CHECKING:
    import httpx

    from moorage.server.settings import Settings

SCHEMA: Final = f"/api/2.1/unity-catalog/delta/v1/catalogs/{CATALOG}/schemas/science"
NAME: Final = "voyages"
COMMENT: Final = "Where our boats went."
FIELDS: Final = {"boat": "string", "port": "string", "departed": "date", "miles": "double"}
VOYAGES: Final[tuple[dict[str, list[Any]], ...]] = (
    {
        "boat": ["Esmeralda", "Nellie", "Roi des Belges"],
        "port": ["Valparaiso", "Gravesend", "Kinshasa"],
        "departed": [date(1954, 6, 15), date(1889, 8, 2), date(1890, 8, 4)],
        "miles": [20_150.0, 31.5, 1_050.0],
    },
    {
        "boat": ["Vigilance", "Esmeralda"],
        "port": ["Brixham", "Valparaiso"],
        "departed": [date(1931, 5, 9), date(1955, 5, 22)],
        "miles": [412.0, 18_730.0],
    },
)
"""The rows that each version adds."""

Action = dict[str, Any]

_NOT_FOUND, _CONFLICT = 404, 409


def make(http: httpx.Client, settings: Settings) -> None:
    """Create the table, and the versions that it lacks."""
    answer = http.get(f"{SCHEMA}/tables/{NAME}")
    if answer.status_code == _NOT_FOUND:
        answer = create(http, settings)
    if answer.is_success and answer.json()["latest-table-version"] == 0:
        answer = _append(http, settings, answer.json()["metadata"])
    if answer.status_code != _CONFLICT:  # another server created the table or the version meanwhile
        answer.raise_for_status()


def create(http: httpx.Client, settings: Settings) -> httpx.Response:
    """Version 0: the client writes it under its final name, before the table exists."""
    staged = http.post(f"{SCHEMA}/staging-tables", json={"name": NAME}).raise_for_status().json()
    protocol, properties = staged["required-protocol"], staged["required-properties"]
    columns = {
        "type": "struct",
        "fields": [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in FIELDS.items()],
    }
    at_ms, (data_path, data) = _now_ms(), _data_file(0)
    first = (
        _commit_info(at_ms, "CREATE TABLE AS SELECT"),
        {"protocol": {_camel(name): value for name, value in protocol.items()}},
        {
            "metaData": {
                "id": str(uuid.uuid4()),
                "description": COMMENT,
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps(columns),
                "partitionColumns": [],
                "configuration": properties,
                "createdTime": at_ms,
            }
        },
        _add(data_path, data, VOYAGES[0], at_ms),
    )
    _put(settings, staged["location"], {data_path: data, f"_delta_log/{0:020}.json": _lines(first)})
    return http.post(
        f"{SCHEMA}/tables",
        json={
            "name": NAME,
            "location": staged["location"],
            "table-type": "MANAGED",
            "comment": COMMENT,
            "columns": columns,
            "protocol": protocol,
            "properties": properties,
            "last-commit-timestamp-ms": at_ms,
        },
    )


def _append(http: httpx.Client, settings: Settings, metadata: dict[str, Any]) -> httpx.Response:
    """Version 1: the client stages the commit, the server ratifies it and publishes it later."""
    # Timestamps of commits increase, also when two of them are made within a millisecond.
    at_ms = max(_now_ms(), metadata["last-commit-timestamp-ms"] + 1)
    data_path, data = _data_file(1)
    commit = _lines((_commit_info(at_ms, "WRITE"), _add(data_path, data, VOYAGES[1], at_ms)))
    name = f"{1:020}.{uuid.uuid4()}.json"
    _put(settings, metadata["location"], {data_path: data, f"_delta_log/_staged_commits/{name}": commit})
    staged = {
        "version": 1,
        "timestamp": at_ms,
        "file-name": name,
        "file-size": len(commit),
        "file-modification-timestamp": at_ms,
    }
    return http.post(
        f"{SCHEMA}/tables/{NAME}",
        json={
            "requirements": [{"type": "assert-table-uuid", "uuid": metadata["table-uuid"]}],
            "updates": [{"action": "add-commit", "commit": staged}],
        },
    )


def _put(settings: Settings, location: str, files: dict[str, bytes]) -> None:
    """Write files below a location, on the disk or in the object store, with the keys of the server."""
    from moorage.server.compose import open_own_storage

    async def put() -> None:
        storage = open_own_storage(settings)
        for path, data in files.items():
            await storage.put_new(f"{location}/", path, data)

    asyncio.run(put())


def _data_file(version: int) -> tuple[str, bytes]:
    """The path and the bytes of the Parquet file with the rows of a version."""
    import pyarrow
    from pyarrow import parquet

    sink = pyarrow.BufferOutputStream()
    parquet.write_table(pyarrow.table(VOYAGES[version]), sink)
    return f"part-{version:05}-{uuid.uuid4()}.snappy.parquet", bytes(sink.getvalue())


def _commit_info(at_ms: int, operation: str) -> Action:
    info = {"inCommitTimestamp": at_ms, "timestamp": at_ms, "operation": operation, "txnId": str(uuid.uuid4())}
    return {"commitInfo": {**info, "engineInfo": "moorage up", "isBlindAppend": True}}


def _add(path: str, data: bytes, rows: dict[str, list[Any]], at_ms: int) -> Action:
    stats = json.dumps({"numRecords": len(rows["boat"])})
    file = {"path": path, "partitionValues": {}, "size": len(data), "modificationTime": at_ms}
    return {"add": {**file, "dataChange": True, "stats": stats}}


def _lines(actions: tuple[Action, ...]) -> bytes:
    return b"".join(json.dumps(action).encode() + b"\n" for action in actions)


def _camel(name: str) -> str:
    """A key of the API as the log spells it."""
    first, *others = name.split("-")
    return first + "".join(map(str.capitalize, others))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
