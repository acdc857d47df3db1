"""Compaction of a managed Delta table whose files are in an object store."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from moorage.client import Client
from moorage.client.delta import DeltaTables
from moorage.client.delta.data_files import write_files
from moorage.testing.minio import PASSWORD, REGION, USER, MinioServer
from moorage.testing.server import COMMAND, clean_environment
from tests.conformance.lakes import s3_lake_server
from tests.upkeep.conftest import FAST

SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string())])
FIELDS = {
    "type": "struct",
    "fields": [
        {"name": "id", "type": "long", "nullable": True, "metadata": {}},
        {"name": "city", "type": "string", "nullable": True, "metadata": {}},
    ],
}


def rows(start: int) -> list[pa.RecordBatch]:
    batches: list[pa.RecordBatch] = pa.table(
        {"id": range(start, start + 10), "city": ["Genoa"] * 10}, SCHEMA
    ).to_batches()
    return batches


def ids(tables: DeltaTables, name: str, store: fs.FileSystem) -> list[int]:
    state = tables.state(name)
    root = state.location.removeprefix("s3://")
    return sorted(
        id for file in state.files for id in pq.read_table(f"{root}/{file['path']}", filesystem=store)["id"].to_pylist()
    )


def test_a_worker_without_keys_compacts_a_table_in_an_object_store(minio: MinioServer, tmp_path: Path) -> None:
    location = f"s3://{minio.new_bucket()}/lake/"
    storage: dict[str, Any] = {
        "access_key": USER,
        "secret_key": PASSWORD,
        "region": REGION,
        "endpoint_override": minio.endpoint,
    }
    with s3_lake_server(tmp_path / "data", minio, location) as server, Client(server.url) as client:
        client.namespaces.create("lake", ["sea"])
        with DeltaTables(server.url, storage=storage) as tables:
            new = tables.stage("lake.sea.boats")
            tables.create(new, FIELDS, write_files(rows(0), SCHEMA, (), new.location, storage=storage))
            state = tables.state("lake.sea.boats")
            for start in (10, 20, 30):
                adds = write_files(rows(start), SCHEMA, (), new.location, storage=storage)
                tables.commit("lake.sea.boats", state.table_id, state.schema_string, adds)
            job = client.namespaces.create_job("lake", ["sea"], "boats", "compact")
            work(server.url)
            ended = client.jobs.get(job.id)
            assert (ended.state, ended.error) == ("succeeded", None)
            (file,) = tables.state("lake.sea.boats").files
            assert file["path"].startswith(f"compact-{job.id}/")
            assert ids(tables, "lake.sea.boats", fs.S3FileSystem(**storage)) == list(range(40))
            # No key in the environment: the server vends them, to Spark and to format("moorage").
            text = (
                "UPDATE lake.sea.boats SET city = 'Bari' WHERE id = 7; SELECT * FROM lake.sea.boats WHERE id IN (7, 8)"
            )
            lines = run_spark("sql", "--catalog", "lake", text, url=server.url).splitlines()
            assert lines[:2] == ["version 5", "id\tcity"]
            assert sorted(lines[2:]) == ["7\tBari", "8\tGenoa"]


def work(url: str) -> None:
    """Run a worker with the pinned jars of the cache, which include those for S3. The server vends its keys."""
    run_spark("worker", "--once", url=url)


def run_spark(verb: str, *args: str, url: str) -> str:
    flags = [part for name, value in FAST.items() for part in ("--spark-conf", f"{name}={value}")]
    command = [*COMMAND, verb, "--url", url, "--spark-master", "local[2]", *flags, *args]
    done = subprocess.run(command, env=clean_environment(), capture_output=True, text=True, timeout=1200, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout
