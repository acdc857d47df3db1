"""Expiry and vacuum of managed Delta tables: announce, wait, delete."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from moorage.client import Client
from moorage.testing.server import ServerProcess
from tests.upkeep.conftest import Finish
from tests.upkeep.managed_lake import CATALOG, SCHEMA, UNITY, ManagedTable, rows_of, small_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOTHING = {"delta.deletedFileRetentionDuration": "interval 0 days"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    flags = ("--deletion-delay-minutes", "0", "--share-url-minutes", "1")
    with ServerProcess(tmp_path_factory.mktemp("vacuum") / "data", flags=flags) as server:
        with httpx.Client(base_url=server.url, trust_env=False) as http:
            http.post(f"{UNITY}/catalogs", json={"name": CATALOG}).raise_for_status()
            http.post(f"{UNITY}/schemas", json={"name": SCHEMA, "catalog_name": CATALOG}).raise_for_status()
        yield server


def expire(table: ManagedTable, **args: Any) -> dict[str, Any]:
    where = f"/api/moorage/v1/catalogs/{CATALOG}/namespaces/{SCHEMA}/tables/{table.name}/jobs"
    answer = table.http.post(where, json={"kind": "expire", "args": args})
    assert answer.status_code == 202, answer.text
    job: dict[str, Any] = answer.json()
    return job


def data_files(table: ManagedTable) -> set[str]:
    found = {path for path in table.folder.rglob("*") if path.is_file() and not path.name.startswith(".")}
    return {str(path.relative_to(table.folder)) for path in found if "_delta_log" not in path.parts}


def wait_until_due(client: Client, id: str) -> None:
    due_ms = client.jobs.get(id).not_before_ms
    time.sleep(max(0.0, due_ms / 1000 - time.time()) + 0.1)


def test_files_of_expired_versions_are_announced_and_deleted_later(
    spark: SparkSession, http: httpx.Client, client: Client, finish: Finish, copy: Path
) -> None:
    table = small_files(spark, http, "old", times=3, **NOTHING)
    spark.sql(f"DELETE FROM {table.path} WHERE id = 3")
    table.adopt()
    assert finish(table.compact()).state == "succeeded"
    before, all_files = rows_of(spark, table.plain_copy(copy / "before")), data_files(table)
    (table.folder / "young.parquet").write_bytes(b"a writer is about to commit this")
    os.utime(table.folder / "young.parquet", (time.time() + 3600, time.time() + 3600))

    announced = finish(expire(table))
    assert (announced.state, announced.error) == ("succeeded", None)
    assert announced.result is not None
    assert (announced.result["floor"], announced.result["files"]) == (table.version(), len(all_files) - 1)
    assert data_files(table) == all_files | {"young.parquet"}, "nothing is deleted yet"
    vacuum = client.jobs.get(announced.result["vacuum_job"])
    assert (vacuum.kind, vacuum.state) == ("vacuum", "queued")

    wait_until_due(client, vacuum.id)
    deleted = finish({"id": vacuum.id})
    assert (deleted.state, deleted.error) == ("succeeded", None)
    assert deleted.result is not None
    assert deleted.result["files_deleted"] == len(all_files) - 1
    assert data_files(table) == {*table.files(), "young.parquet"}
    assert rows_of(spark, table.plain_copy(copy / "after")) == before
    refused = http.get(f"{UNITY}/delta/v1/catalogs/{CATALOG}/schemas/{SCHEMA}/tables/old/files", params={"version": 0})
    assert refused.status_code == 404, refused.text


def test_versions_within_the_retention_stay(
    spark: SparkSession, http: httpx.Client, client: Client, finish: Finish
) -> None:
    table = small_files(spark, http, "kept", times=2).adopt()
    files = data_files(table)
    announced = finish(expire(table, older_than_days=0))
    assert announced.result is not None
    assert (announced.result["floor"], announced.result["files"]) == (0, 0), "the table states seven days"
    assert data_files(table) == files
