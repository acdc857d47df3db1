"""Statistics that the server computes of a real table are those that Spark writes itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from moorage.testing import delta_writer as write
from tests.upkeep.conftest import Finish
from tests.upkeep.managed_lake import CATALOG, SCHEMA, ManagedTable, read_actions, rows_of, small_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DDL = (
    "id BIGINT, small TINYINT, name STRING, at TIMESTAMP, local TIMESTAMP_NTZ, day DATE, price DECIMAL(20, 3), "
    "x DOUBLE, flag BOOLEAN, raw BINARY, `a b` STRUCT<c: INT, `d.e`: STRING>, list ARRAY<INT>, map MAP<STRING, INT>"
)
ROW = (
    "id, tinyint(id), if(id % 3 = 0, NULL, repeat(concat('ü', id), 20)), "
    "timestamp'1969-12-31 23:59:59.123456' + make_interval(0, 0, 0, int(id)), "
    "timestamp_ntz'1950-01-01 00:00:00.999999', date'1950-01-01' + int(id), id / 8, id / 4, id > 3, "
    "binary('b'), named_struct('c', int(id), 'd.e', 'e'), array(int(id)), map('k', int(id))"
)

TIMESTAMPS = "spark.sql.parquet.outputTimestampType"
COLUMNS = 8
"""Those with bounds: the others are a boolean, bytes, a list and a map, and a timestamp that is stored as INT96."""


def take_statistics(table: ManagedTable) -> dict[str, dict[str, Any]]:
    """Remove the statistics from the log that Spark wrote, and return them by file."""
    found: dict[str, dict[str, Any]] = {}
    for file in table.log.glob("*.json"):
        actions = read_actions(file)
        for action in actions:
            if "add" in action and "stats" in action["add"]:
                found[action["add"]["path"]] = json.loads(action["add"].pop("stats"))
        file.write_bytes(write.lines(*actions))
    return found


@pytest.fixture(params=["INT96", "TIMESTAMP_MICROS"])
def stored_as(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[str]:
    """How Spark stores timestamps. The session is that of other tests, too."""
    before = spark.conf.get(TIMESTAMPS)
    spark.conf.set(TIMESTAMPS, request.param)
    yield request.param
    spark.conf.set(TIMESTAMPS, before)


def test_the_statistics_of_every_type_are_those_of_spark(
    spark: SparkSession, http: httpx.Client, finish: Finish, copy: Path, stored_as: str
) -> None:
    name, columns = f"bare_{stored_as.lower()}", COLUMNS + (stored_as != "INT96")
    features = {"delta.columnMapping.mode": "name", "delta.feature.timestampNtz": "supported"}
    table = small_files(spark, http, name, ddl=DDL, rows=ROW, times=2, **features)
    spark.sql(f"DELETE FROM {table.path} WHERE id = 12")
    stated = take_statistics(table)
    table.adopt()
    before = table.plain_copy(copy / "before")
    where = f"/api/moorage/v1/catalogs/{CATALOG}/namespaces/{SCHEMA}/tables/{name}/jobs"
    job = finish(
        http.post(where, json={"kind": "statistics", "args": {"beside_writers": True}}).raise_for_status().json()
    )
    assert (job.state, job.error) == ("succeeded", None)
    assert job.result is not None
    assert (job.result["before"], job.result["after"], job.result["unreadable_files"]) == (
        {"files_without_statistics": 4},
        {"files_without_statistics": 0},
        0,
    )
    for path, file in table.files().items():
        found, expected = json.loads(file["stats"]), stated[path]
        assert (found["numRecords"], found["tightBounds"]) == (expected["numRecords"], "deletionVector" not in file)
        assert found["minValues"] == part_of(expected["minValues"], found["minValues"])
        assert found["nullCount"] == part_of(expected["nullCount"], found["nullCount"])
        assert (len(found["minValues"]), len(found["maxValues"])) == (columns, columns - 1)
    after = table.plain_copy(copy / "after")
    for where in ("TRUE", "id = 7", "local = timestamp_ntz'1950-01-01 00:00:00.999999'", "x > 3", "name > 'ü18'"):
        assert rows_of(spark, f"{after} WHERE {where}") == rows_of(spark, f"{before} WHERE {where}") != []


def part_of(expected: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """The columns of the first that the second has, too."""
    return {name: expected[name] for name in found}
