"""Commit files as Spark with Delta 4.4 writes them, adjusted for a test."""

import json
from typing import Any

TABLE_ID = "e663a61d-7ddc-4053-ab5e-8130dbcc6538"
LOCATION = "s3://lake/tables/e663a61d"
T0 = 1794729160545

SCHEMA: dict[str, Any] = {
    "type": "struct",
    "fields": [
        {
            "name": "id",
            "type": "long",
            "nullable": False,
            "metadata": {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "col-39933c91"},
        },
        {
            "name": "v",
            "type": "string",
            "nullable": True,
            "metadata": {
                "comment": "val",
                "delta.columnMapping.id": 2,
                "delta.columnMapping.physicalName": "col-945272a9",
            },
        },
    ],
}
READER_FEATURES = ["deletionVectors", "v2Checkpoint", "catalogManaged", "vacuumProtocolCheck", "columnMapping"]
WRITER_FEATURES = [*READER_FEATURES, "domainMetadata", "rowTracking", "invariants", "inCommitTimestamp", "appendOnly"]
CONFIGURATION = {
    "delta.enableDeletionVectors": "true",
    "delta.checkpoint.writeStatsAsStruct": "true",
    "delta.checkpoint.writeStatsAsJson": "true",
    "delta.enableRowTracking": "true",
    "delta.checkpointPolicy": "v2",
    "io.unitycatalog.tableId": TABLE_ID,
    "owner.team": "x",
    "delta.enableInCommitTimestamps": "true",
    "delta.columnMapping.mode": "name",
    "delta.columnMapping.maxColumnId": "2",
}


def file_of(*lines: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def without(values: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key not in keys}


def commit_info(timestamp: int | None = T0, operation: str = "WRITE", **more: Any) -> dict[str, Any]:
    info = {
        "inCommitTimestamp": timestamp,
        "timestamp": T0,
        "operation": operation,
        "operationParameters": {"mode": "Append", "partitionBy": "[]"},
        "readVersion": 0,
        "isolationLevel": "Serializable",
        "isBlindAppend": True,
        "operationMetrics": {"numFiles": "1", "numOutputRows": "2", "numOutputBytes": "1199"},
        "engineInfo": "Apache-Spark/4.1.4 Delta-Lake/4.4.0",
        "txnId": "5a1c4d4f-3e2b-4c8e-9c43-5a0e7d0f9e11",
        **more,
    }
    return {"commitInfo": {key: value for key, value in info.items() if value is not None}}


def protocol(**changes: Any) -> dict[str, Any]:
    return {
        "protocol": {
            "minReaderVersion": 3,
            "minWriterVersion": 7,
            "readerFeatures": READER_FEATURES,
            "writerFeatures": WRITER_FEATURES,
            **changes,
        }
    }


def metadata(**changes: Any) -> dict[str, Any]:
    return {
        "metaData": {
            "id": "3f0c6f7e-26ce-4c5a-8d45-6d8a7e0a2b11",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps(SCHEMA),
            "partitionColumns": [],
            "configuration": CONFIGURATION,
            "createdTime": T0,
            **changes,
        }
    }


def domain(name: str, configuration: dict[str, Any], *, removed: bool = False) -> dict[str, Any]:
    return {"domainMetadata": {"domain": name, "configuration": json.dumps(configuration), "removed": removed}}


def high_water_mark(value: int) -> dict[str, Any]:
    return domain("delta.rowTracking", {"rowIdHighWaterMark": value})


def add(path: str = "ab/part-00000-c000.zstd.parquet", *, rows: int | None = 2, **changes: Any) -> dict[str, Any]:
    stats = {
        "numRecords": rows,
        "minValues": {"col-39933c91": 1},
        "maxValues": {"col-39933c91": 2},
        "tightBounds": True,
    }
    action = {
        "path": path,
        "partitionValues": {},
        "size": 1199,
        "modificationTime": T0,
        "dataChange": True,
        "stats": None if rows is None else json.dumps(stats),
        **changes,
    }
    return {"add": {key: value for key, value in action.items() if value is not None}}


def remove(path: str = "ab/part-00000-c000.zstd.parquet", **changes: Any) -> dict[str, Any]:
    return {
        "remove": {"path": path, "deletionTimestamp": T0, "dataChange": True, "size": 1199, **changes},
    }


def cdc(path: str) -> dict[str, Any]:
    return {"cdc": {"path": path, "partitionValues": {}, "size": 1, "dataChange": False}}


def vector(
    storage_type: str = "u", path_or_inline_dv: str = "ab^-aqEH.-t@S}K{vb[*k^", **changes: Any
) -> dict[str, Any]:
    return {
        "storageType": storage_type,
        "pathOrInlineDv": path_or_inline_dv,
        "sizeInBytes": 40,
        "cardinality": 1,
        **changes,
    }


def first_commit(*more: dict[str, Any]) -> bytes:
    return file_of(commit_info(operation="CREATE TABLE"), protocol(), metadata(), *more)
