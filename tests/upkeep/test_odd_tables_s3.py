"""Compaction of tables with every feature, and of many small files, in an object store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from pyarrow import fs

from moorage.client import Client
from moorage.client.delta import DeltaTables
from moorage.client.delta.data_files import write_files
from moorage.testing.minio import PASSWORD, REGION, USER, MinioServer
from tests.conformance.lakes import s3_lake_server
from tests.crash.children import SOAK
from tests.upkeep.managed_lake import Action, ManagedTable, rows_of, small_files, stage
from tests.upkeep.test_compact_delta import FEATURED, ODD_PARTITIONS, ROW_IDS, partitions_of
from tests.upkeep.test_compact_delta_s3 import FIELDS, SCHEMA, ids, rows, work

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES = 5_000 if SOAK else 100


class RemoteTable(ManagedTable):
    """A managed table in an object store, with a copy of its folder on disk for Spark's sessions without S3."""

    def __init__(self, http: httpx.Client, name: str, folder: Path, store: fs.FileSystem) -> None:
        staged = stage(http, name)
        super().__init__(http, name, staged.id, staged.location)
        self.folder, self._store, self._key = folder, store, staged.location.removeprefix("s3://").rstrip("/")

    def _create(self) -> None:
        fs.copy_files(str(self.folder), self._key, fs.LocalFileSystem(), self._store)
        super()._create()

    def stage(self, version: int, data: bytes) -> Action:
        info = super().stage(version, data)
        with self._store.open_output_stream(f"{self._key}/_delta_log/_staged_commits/{info['file_name']}") as out:
            out.write(data)
        return info

    def commits(self) -> dict[int, list[Action]]:
        fs.copy_files(self._key, str(self.folder), self._store, fs.LocalFileSystem())
        return super().commits()


@pytest.mark.timeout(1800)
def test_odd_tables_and_many_files_in_an_object_store_keep_their_rows(
    spark: SparkSession, minio: MinioServer, tmp_path: Path
) -> None:
    location = f"s3://{minio.new_bucket()}/lake/"
    storage: dict[str, Any] = {
        "access_key": USER,
        "secret_key": PASSWORD,
        "region": REGION,
        "endpoint_override": minio.endpoint,
    }
    store = fs.S3FileSystem(**storage)
    with (
        s3_lake_server(tmp_path / "data", minio, location) as server,
        httpx.Client(base_url=server.url, trust_env=False, timeout=60) as http,
        Client(server.url) as client,
        DeltaTables(server.url, storage=storage) as tables,
    ):
        client.namespaces.create("lake", ["sea"])
        odd = RemoteTable(http, "odd", tmp_path / "odd", store)
        small_files(spark, http, odd, **ODD_PARTITIONS)
        featured = RemoteTable(http, "featured", tmp_path / "featured", store)
        mapped = {"delta.columnMapping.mode": "name", "delta.enableRowTracking": "true"}
        small_files(spark, http, featured, **{**FEATURED, **mapped})
        spark.sql(f"ALTER TABLE {featured.path} RENAME COLUMN city TO town")
        spark.sql(f"ALTER TABLE {featured.path} ALTER COLUMN n TYPE BIGINT")
        spark.sql(f"ALTER TABLE {featured.path} ADD COLUMN `a b` STRUCT<x: ARRAY<MAP<STRING, INT>>>")
        spark.sql(f"INSERT INTO {featured.path} (id, n, `a b`) VALUES (77, 5000000000, struct(array(map('k', 1))))")
        spark.sql(f"DELETE FROM {featured.path} WHERE id % 5 = 0")
        many = tables.stage("lake.sea.many")
        tables.create(many, FIELDS)
        adds = [
            each for n in range(FILES) for each in write_files(rows(10 * n), SCHEMA, (), many.location, storage=storage)
        ]
        tables.commit("lake.sea.many", many.table_id, tables.state("lake.sea.many").schema_string, adds)

        odd.adopt()
        featured.adopt()
        texts, files = partitions_of(odd), len(odd.files())
        before = rows_of(spark, odd.plain_copy(tmp_path / "odd_before"))
        kept = f"*, {ROW_IDS.removeprefix('id, ')}"
        before_featured = rows_of(spark, featured.plain_copy(tmp_path / "featured_before"), kept)
        jobs = [odd.compact()["id"], featured.compact()["id"]]
        jobs.append(client.namespaces.create_job("lake", ["sea"], "many", "compact").id)
        work(server.url)
        ended = [client.jobs.get(id) for id in jobs]
        assert [(job.state, job.error) for job in ended] == [("succeeded", None)] * 3

        assert len(odd.files()) < files
        assert partitions_of(odd) == texts
        assert rows_of(spark, odd.plain_copy(tmp_path / "odd_after")) == before
        (file,) = featured.files().values()
        assert "deletionVector" not in file
        assert rows_of(spark, featured.plain_copy(tmp_path / "featured_after"), kept) == before_featured
        assert ended[2].result is not None
        assert (ended[2].result["before"]["files"], ended[2].result["after"]["files"]) == (FILES, 1)
        assert ids(tables, "lake.sea.many", store) == list(range(10 * FILES))
