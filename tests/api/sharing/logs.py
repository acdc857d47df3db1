"""Delta logs for the tests of Delta Sharing."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from tests.snapshots.log_builder import PROTOCOL, Action, LogBuilder, add, metadata, remove, statistics

T0 = 1_700_000_000_000
"""The time of version 0. Each further version is a minute later."""
MINUTE = 60_000
FEED = {"delta.enableChangeDataFeed": "true"}
VECTORS: Action = {
    "protocol": {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["deletionVectors"],
        "writerFeatures": ["deletionVectors", "changeDataFeed"],
    }
}
MANAGED: Action = {
    "protocol": {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["catalogManaged", "vacuumProtocolCheck", "v2Checkpoint", "deletionVectors"],
        "writerFeatures": [
            "catalogManaged",
            "vacuumProtocolCheck",
            "v2Checkpoint",
            "deletionVectors",
            "inCommitTimestamp",
            "appendOnly",
        ],
    }
}
MAPPED: Action = {"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}}


def time_of(version: int) -> int:
    return T0 + version * MINUTE


def iso(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def cdc(path: str, **more: Any) -> Action:
    return {"cdc": {"path": path, "partitionValues": {}, "size": 1, "dataChange": False, **more}}


def commit(log: LogBuilder, *actions: Action) -> int:
    return log.commit(*actions, at_ms=time_of(len(log.commits)))


def write_history(log: LogBuilder, *, configuration: dict[str, str] | None = None, protocol: Action = PROTOCOL) -> None:
    """Four versions: two files, a third, a removed one, and a compaction that changes no rows."""
    described = metadata({"id": "long"}, configuration=FEED if configuration is None else configuration)
    commit(
        log, protocol, described, add("a", stats=statistics(id=(0, 9, 0))), add("b", stats=statistics(id=(10, 19, 0)))
    )
    commit(log, add("c", stats=statistics(id=(20, 29, 0))))
    commit(
        log,
        remove("a", size=1, partitionValues={}),
        add("a2", stats=statistics(9, id=(1, 9, 0))),
        cdc("_change_data/a"),
    )
    commit(
        log,
        remove("b", size=1, partitionValues={}, dataChange=False),
        remove("c", size=1, partitionValues={}, dataChange=False),
        add("bc", stats=statistics(20, id=(10, 29, 0)), dataChange=False),
    )


def mapped_metadata(columns: dict[str, Any], **given: Any) -> Action:
    action = metadata(columns, configuration={"delta.columnMapping.mode": "name"}, **given)
    schema = json.loads(action["metaData"]["schemaString"])
    for number, field in enumerate(schema["fields"], 1):
        field["metadata"] = {
            "delta.columnMapping.id": number,
            "delta.columnMapping.physicalName": f"col-{field['name']}",
            "comment": f"about {field['name']}",
        }
    action["metaData"]["schemaString"] = json.dumps(schema)
    return action
