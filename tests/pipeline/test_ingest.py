"""`moorage ingest` on a real server and a real Spark: each row once, nothing lost silently."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import signal
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import psutil
import pytest
from msgspec.structs import replace

from moorage.client import Client
from moorage.client.delta import DeltaTables
from moorage.pipeline.ingest import IngestRefused, Request, ingest
from moorage.pipeline.ingest.files import source_id
from moorage.pipeline.ingest.requests import TableFormat
from moorage.pipeline.ingest.targets import Target, target_of
from moorage.testing.server import COMMAND, ServerProcess

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.xdist_group("spark-pipeline")

ROW_TRACKING = {
    "delta.rowTracking.materializedRowIdColumnName": "_row-id",
    "delta.rowTracking.materializedRowCommitVersionColumnName": "_row-commit-version",
}
FORMATS = ("delta", "iceberg", "lance")


def table_of(spark: SparkSession, name: str, kind: TableFormat) -> DataFrame:
    return spark.table(name) if kind == "iceberg" else spark.read.format("moorage").load(name)


def put(folder: Path, name: str, rows: list[Any]) -> Path:
    """A file arrives by a rename, so that no reader sees a half of it."""
    folder.mkdir(exist_ok=True)
    part = folder / f".{name}"
    part.write_text("".join(row if isinstance(row, str) else json.dumps(row) + "\n" for row in rows))
    return part.rename(folder / name)


@pytest.mark.parametrize("kind", FORMATS)
def test_a_folder_that_keeps_filling_is_taken_once(
    spark: SparkSession, server: ServerProcess, schema: str, tmp_path: Path, kind: TableFormat
) -> None:
    source, table = tmp_path / "in", f"{schema}.{kind}"
    request = Request(
        source=str(source),
        table=table,
        url=server.url,
        table_format=kind,
        schema="id long, name string",
    )
    put(source, "a.json", [{"id": 1, "name": "Nellie"}, {"id": 2, "name": None}])
    put(source, "b.json", [{"id": 3, "name": "Vigilance"}, "{broken\n", {"id": "three"}, "\n"])
    first = ingest(spark, request)
    assert (first.rows, first.files, first.rejected) == (3, 2, 2)
    assert ingest(spark, request).rows == 0
    put(source, "c.json", [{"id": 4, "name": "Esmeralda", "flag": "CL"}])
    third = ingest(spark, request)
    assert (third.rows, third.files, third.unknown_fields) == (1, 1, ["flag"])
    assert sorted(row.id for row in table_of(spark, table, kind).collect()) == [1, 2, 3, 4]
    rejected = table_of(spark, f"{table}_rejected", kind).collect()
    assert sorted((Path(row.file).name, row.line) for row in rejected) == [("b.json", 2), ("b.json", 3)]
    reasons = {row.line: row.reason for row in rejected}
    assert "not valid JSON" in reasons[2]
    assert "'id' is not of type bigint" in reasons[3]
    with Client(server.url) as client:
        found = client.lineage.get("lake", [schema.split(".")[1]], kind)
        (origin,) = found.steps
        assert (origin.kind, origin.sources) == ("ingest", (source.as_uri(),))
        assert origin.output.versions == (found.version,)
        (earlier,) = origin.inputs
        (before,) = client.lineage.get("lake", [schema.split(".")[1]], kind, version=earlier.version).steps
        assert [(client.jobs.get(step.job).result or {}).get("rows") for step in (before, origin)] == [3, 1]


@pytest.mark.parametrize("kind", FORMATS)
def test_a_batch_that_was_committed_before_a_kill_is_not_committed_again(
    spark: SparkSession, server: ServerProcess, schema: str, tmp_path: Path, kind: TableFormat
) -> None:
    source, table = tmp_path / "in", f"{schema}.{kind}"
    request = Request(source=str(source), table=table, url=server.url, table_format=kind)
    put(source, "a.json", [{"id": 1}, {"id": 2}, "{broken\n"])
    ingest(spark, request)
    forget_the_end(server, source)
    put(source, "b.json", [{"id": 3}])
    again = ingest(spark, request)
    assert sorted(row.id for row in table_of(spark, table, kind).collect()) == [1, 2, 3]
    assert table_of(spark, f"{table}_rejected", kind).count() == 1
    assert again.batches == 2


@pytest.mark.parametrize("kind", FORMATS)
def test_an_upsert_keeps_the_newest_row_of_each_key(
    spark: SparkSession, server: ServerProcess, schema: str, tmp_path: Path, kind: TableFormat
) -> None:
    source, table = tmp_path / "in", f"{schema}.{kind}"
    request = Request(
        source=str(source),
        table=table,
        url=server.url,
        table_format=kind,
        mode="upsert",
        key=("id",),
    )
    put(
        source,
        "a.json",
        [{"id": 1, "name": "old"}, {"id": 2, "name": "two"}, {"id": 1, "name": "newer"}, {"name": "x"}],
    )
    ingest(spark, request)
    put(source, "b.json", [{"id": 1, "name": "newest"}, {"id": 3, "name": "three"}, {"id": None, "name": "without"}])
    ingest(spark, request)
    rows = sorted((row.id or 0, row.name) for row in table_of(spark, table, kind).collect())
    assert rows == [(0, "without"), (1, "newest"), (2, "two"), (3, "three")]


@pytest.mark.parametrize("kind", FORMATS)
def test_an_upsert_that_is_repeated_after_a_kill_leaves_what_others_have_changed_since(
    spark: SparkSession, server: ServerProcess, schema: str, tmp_path: Path, kind: TableFormat
) -> None:
    first, second, table = tmp_path / "first", tmp_path / "second", f"{schema}.{kind}"
    request = Request(
        source=str(first),
        table=table,
        url=server.url,
        table_format=kind,
        mode="upsert",
        key=("id",),
        schema="id long, n long",
    )
    put(first, "a.json", [{"id": 1, "n": 1}, {"id": 2, "n": 1}])
    ingest(spark, request)
    forget_the_end(server, first)
    put(second, "b.json", [{"id": 1, "n": 2}])
    ingest(spark, replace(request, source=str(second)))
    assert ingest(spark, request).batches == 1
    assert {row.id: row.n for row in table_of(spark, table, kind).collect()} == {1: 2, 2: 1}


def forget_the_end(server: ServerProcess, source: Path) -> None:
    """As after a kill between the commit of a batch and the record that it is done."""
    done = list(Path(server.data).glob(f"**/_ingest/{source_id(str(source))}/*.done"))
    assert done
    for file in done:
        file.unlink()


@pytest.mark.parametrize("kind", FORMATS)
def test_without_the_record_of_taken_files_no_file_counts_as_taken(
    spark: SparkSession, server: ServerProcess, schema: str, tmp_path: Path, kind: TableFormat
) -> None:
    """The number of the next batch would be one that the table has, so it would ignore the rows."""
    source, table = tmp_path / "in", f"{schema}.{kind}"
    request = Request(source=str(source), table=table, url=server.url, table_format=kind, schema="id long")
    put(source, "a.json", [{"id": 1}])
    ingest(spark, request)
    (record,) = Path(server.data).glob(f"**/_ingest/{source_id(str(source))}")
    kept = record.rename(tmp_path / "kept")
    put(source, "b.json", [{"id": 2}])
    for _ in range(2):
        with pytest.raises(IngestRefused, match="Restore that folder"):
            ingest(spark, request)
    shutil.rmtree(record)
    kept.rename(record)
    assert ingest(spark, request).rows == 1
    assert sorted(row.id for row in table_of(spark, table, kind).collect()) == [1, 2]


def test_a_process_that_is_killed_loses_no_row_and_repeats_none(
    spark: SparkSession, server: ServerProcess, jars: Path, schema: str, tmp_path: Path
) -> None:
    source, table = tmp_path / "in", f"{schema}.killed"
    for at in range(20):
        put(source, f"{at}.json", [{"id": 1_000 * at + row} for row in range(1_000)])
    environment = {**os.environ, "MOORAGE_SPARK_JARS": str(jars)}
    command = [*COMMAND, "ingest", str(source), table, "--url", server.url, "--format", "iceberg"]
    command += ["--spark-master", "local[2]", "--spark-conf", "spark.driver.memory=1g"]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 150
        while not list(Path(server.data).glob(f"**/_ingest/{source_id(str(source))}/*.batch")):
            assert time.monotonic() < deadline
            time.sleep(0.02)
    finally:
        below = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        for each in below:
            each.kill()
        process.wait()
    psutil.wait_procs(below, timeout=20)
    again = ingest(spark, Request(source=str(source), table=table, url=server.url, table_format="iceberg"))
    assert again.batches == 1
    assert sorted(row.id for row in spark.table(table).collect()) == list(range(20_000))


def test_a_batch_that_two_machines_write_at_once_is_in_an_iceberg_table_once(
    spark: SparkSession, server: ServerProcess, schema: str, tmp_path: Path
) -> None:
    """For a table in S3, a second machine takes the open batch of the first one for one that a kill has left."""
    request = Request(
        source=str(tmp_path / "in"), table=f"{schema}.twice", url=server.url, table_format="iceberg", schema="id long"
    )
    put(tmp_path / "in", "a.json", [{"id": 1}])
    ingest(spark, request)
    machines = [target_of(spark, request, request.table) for _ in range(3)]
    together = threading.Barrier(len(machines))

    def write(machine: Target) -> bool:
        together.wait()
        return machine.write(spark.range(2, 1_000), "ingest-other", 0, overwrite=False)

    with ThreadPoolExecutor(len(machines)) as pool:
        written = list(pool.map(write, machines))
    assert sorted(written) == [False, False, True]
    assert sorted(row.id for row in spark.table(request.table).collect()) == list(range(1, 1_000))


def test_a_field_that_a_struct_lacks_is_reported_with_its_path(
    spark: SparkSession, server: ServerProcess, schema: str, tmp_path: Path
) -> None:
    source, table = tmp_path / "in", f"{schema}.nested"
    request = Request(source=str(source), table=table, url=server.url)
    put(source, "a.json", [{"id": 1, "at": {"x": 1}, "path": [{"y": 1}]}])
    assert ingest(spark, request).unknown_fields == []
    put(source, "b.json", [{"id": 2, "at": {"x": 1, "id": 2}, "path": [{"y": 1}, {"z": 1}], "x": 1}])
    found = ingest(spark, request)
    assert (found.rows, found.unknown_fields) == (1, ["at.id", "path.z", "x"])


def test_lenient_json_is_taken_as_spark_takes_it(
    spark: SparkSession, server: ServerProcess, schema: str, tmp_path: Path
) -> None:
    source, table = tmp_path / "in", f"{schema}.lenient"
    request = Request(source=str(source), table=table, url=server.url, schema="id long")
    put(source, "a.json", ["{'id': 1, 'flag': 'NO'}\n", '[{"id": 2}, {"id": 3}]\n'])
    found = ingest(spark, request)
    assert (found.rows, found.unknown_fields) == (3, ["flag"])


def test_files_with_other_columns_are_all_read_by_name(
    spark: SparkSession, server: ServerProcess, schema: str, tmp_path: Path
) -> None:
    """Spark alone takes the columns of all files from one of them."""
    made: dict[str, list[Any]] = {
        "csv": ["id,name\n1,Nellie\n", "flag,id\nNO,2\n"],
        "avro": [{"id": 1, "name": "Nellie"}, {"flag": "NO", "id": 2}],
    }
    for kind, contents in made.items():
        source, table = tmp_path / kind, f"{schema}.{kind}_named"
        source.mkdir()
        for at, content in enumerate(contents):
            file = source / f"{at}.{kind}"
            if isinstance(content, str):
                file.write_text(content)
            else:
                types = {"id": "long"}
                fields = [{"name": name, "type": types.get(name, "string")} for name in content]
                with file.open("wb") as sink:
                    fastavro.writer(sink, {"type": "record", "name": "row", "fields": fields}, [content])
        request = Request(source=str(source), table=table, url=server.url, schema="id long, name string")
        found = ingest(spark, request)
        assert (found.rows, found.rejected, found.unknown_fields) == (2, 0, ["flag"])
        whole = replace(request, table=f"{table}_whole", schema=None)
        assert ingest(spark, whole).unknown_fields == []
        rows = spark.read.format("moorage").load(whole.table).collect()
        assert sorted((row.id, row.name, row.flag) for row in rows) == [(1, "Nellie", None), (2, None, "NO")]


def test_text_has_a_row_for_each_line(spark: SparkSession, server: ServerProcess, schema: str, tmp_path: Path) -> None:
    put(tmp_path / "in", "a.log", ["first\n", "second\n"])
    assert ingest(spark, Request(source=str(tmp_path / "in"), table=f"{schema}.lines", url=server.url)).rows == 2
    rows = spark.read.format("moorage").load(f"{schema}.lines").collect()
    assert sorted(row.value for row in rows) == ["first", "second"]


def test_csv_columns_are_matched_by_their_header(
    spark: SparkSession, server: ServerProcess, schema: str, tmp_path: Path
) -> None:
    source, table = tmp_path / "in", f"{schema}.csv"
    put(source, "a.csv", ["id,name,miles\n", '1,"Nellie, of Gravesend",31.5\n', "2,Roi,\n"])
    request = Request(source=str(source), table=table, url=server.url)
    assert ingest(spark, request).rows == 2
    put(source, "b.csv", ["name,id,captain\n", "Vigilance,3,Ann\n", "x,not a number,y\n"])
    (source / "c.csv.gz").write_bytes(gzip.compress(b"id,name\n4,Esmeralda\n"))
    put(source, "empty.csv", [])
    second = ingest(spark, request)
    assert (second.rows, second.rejected, second.unknown_fields) == (2, 1, ["captain"])
    found = sorted((row.id, row.name, row.miles) for row in spark.read.format("moorage").load(table).collect())
    assert found == [
        (1, "Nellie, of Gravesend", 31.5),
        (2, "Roi", None),
        (3, "Vigilance", None),
        (4, "Esmeralda", None),
    ]


def test_an_unreadable_parquet_file_is_set_aside_and_the_others_are_taken(
    spark: SparkSession, server: ServerProcess, schema: str, tmp_path: Path
) -> None:
    source, table = tmp_path / "in", f"{schema}.parquet"
    spark.range(5).coalesce(1).write.parquet(str(tmp_path / "made"))
    source.mkdir()
    (made,) = (tmp_path / "made").glob("*.parquet")
    made.rename(source / "good.parquet")
    (source / "bad.parquet").write_bytes(b"PAR1 this is not a Parquet file PAR1")
    request = Request(source=str(source), table=table, url=server.url)
    done = ingest(spark, request)
    assert (done.rows, [Path(name).name for name in done.unreadable]) == (5, ["bad.parquet"])
    rejected = spark.read.format("moorage").load(f"{table}_rejected").collect()
    assert [Path(row.file).name for row in rejected] == ["bad.parquet"]
    assert rejected[0].reason


def test_avro_files_go_into_a_table_that_only_delta_can_write(
    spark: SparkSession, server: ServerProcess, schema: str, tmp_path: Path
) -> None:
    table = f"{schema}.tracked"
    with DeltaTables(server.url) as tables:
        new = tables.stage(table)
        features = [*new.protocol["writer-features"], "rowTracking", "domainMetadata"]
        tracked = replace(new, protocol={**new.protocol, "writer-features": features})
        fields = spark.createDataFrame([], "id long, name string").schema.jsonValue()
        tables.create(tracked, fields, properties={"delta.enableRowTracking": "true", **ROW_TRACKING})
    source = tmp_path / "in"
    for number, name in ((1, "Nellie"), (2, "Vigilance")):
        row = spark.createDataFrame([(number, name)], "id long, name string")
        row.coalesce(1).write.format("avro").save(str(tmp_path / name))
        source.mkdir(exist_ok=True)
        next((tmp_path / name).glob("*.avro")).rename(source / f"{name}.avro")
        assert ingest(spark, Request(source=str(source), table=table, url=server.url)).rows == 1
    with DeltaTables(server.url) as tables:
        state = tables.state(table)
        assert sorted(file["baseRowId"] for file in state.files) == [0, 1]
        assert state.version == 2


def test_new_fields_become_columns_on_request_and_a_source_can_be_replaced(
    spark: SparkSession, server: ServerProcess, schema: str, tmp_path: Path
) -> None:
    source, table = tmp_path / "in", f"{schema}.evolving"
    put(source, "a.json", [{"id": 1}])
    ingest(spark, Request(source=str(source), table=table, url=server.url))
    put(source, "b.json", [{"id": 2, "name": "Nellie"}])
    evolving = Request(source=str(source), table=table, url=server.url, evolve=True)
    assert ingest(spark, evolving).unknown_fields == []
    rows = spark.read.format("moorage").load(table).collect()
    assert sorted((row.id, row.name) for row in rows) == [(1, None), (2, "Nellie")]
    whole = ingest(spark, Request(source=str(source), table=table, url=server.url, mode="overwrite"))
    assert whole.rows == 2
    assert spark.read.format("moorage").load(table).count() == 2


def test_a_file_is_known_by_its_name(spark: SparkSession, server: ServerProcess, schema: str, tmp_path: Path) -> None:
    """Late and empty files are taken; one that was renamed or copied is another file; a changed one is reported."""
    source, table = tmp_path / "in", f"{schema}.named"
    request = Request(source=str(source), table=table, url=server.url, schema="id long")
    for name, id in (("a.json", 1), ("b.json", 2), ("c.json", 3)):
        put(source, name, [{"id": id}])
    put(source, "empty.json", [])
    assert ingest(spark, request).rows == 3
    os.utime(put(source, "late.json", [{"id": 4}]), (1_000_000_000, 1_000_000_000))
    (source / "a.json").rename(source / "renamed.json")
    shutil.copy(source / "b.json", source / "copied.json")
    (source / "c.json").write_text('{"id": 33}\n{"id": 34}\n')
    second = ingest(spark, request)
    assert (second.rows, second.files, second.changed_files) == (3, 3, 1)
    rows = spark.read.format("moorage").load(table).collect()
    assert sorted(row.id for row in rows) == [1, 1, 2, 2, 3, 4]


def test_an_ingest_of_many_small_files_makes_few_data_files(
    spark: SparkSession, server: ServerProcess, schema: str, tmp_path: Path
) -> None:
    source, table = tmp_path / "in", f"{schema}.small"
    for at in range(100):
        put(source, f"{at}.json", [{"id": at}])
    request = Request(source=str(source), table=table, url=server.url, table_format="iceberg", schema="id long")
    assert ingest(spark, request).rows == 100
    assert spark.table(f"{table}.files").count() <= 2
    assert spark.conf.get("spark.sql.files.openCostInBytes") == "4194304b"


def test_what_cannot_be_done_is_refused_with_the_remedy(
    spark: SparkSession, server: ServerProcess, schema: str, tmp_path: Path
) -> None:
    with pytest.raises(IngestRefused, match="does not exist"):
        ingest(spark, Request(source=str(tmp_path / "none"), table=f"{schema}.x", url=server.url))
    put(tmp_path / "in", "a.dat", ["x\n"])
    with pytest.raises(IngestRefused, match="--input-format"):
        ingest(spark, Request(source=str(tmp_path / "in"), table=f"{schema}.x", url=server.url))
    with pytest.raises(IngestRefused, match="--key"):
        ingest(spark, Request(source=str(tmp_path / "in"), table=f"{schema}.x", url=server.url, mode="upsert"))
    flat = Request(source="in", table=f"{schema}.x", url=server.url, table_format="lance", partition_by=("id",))
    with pytest.raises(IngestRefused, match="--partition-by"):
        ingest(spark, flat)


def test_the_command_takes_standard_input_once(server: ServerProcess, jars: Path, schema: str, tmp_path: Path) -> None:
    environment = {**os.environ, "MOORAGE_SPARK_JARS": str(jars), "XDG_CACHE_HOME": str(tmp_path)}
    command = [*COMMAND, "ingest", "-", f"{schema}.typed", "--url", server.url, "--input-format", "csv", "--json"]
    command += ["--spark-master", "local[2]", "--spark-conf", "spark.driver.memory=1g"]
    for rows in (2, 0):
        done = subprocess.run(
            command, input="id,name\n1,a\n2,b\n", text=True, capture_output=True, env=environment, check=False
        )
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["rows"] == rows


def test_ctrl_c_ends_a_watch_without_a_stack(server: ServerProcess, jars: Path, schema: str, tmp_path: Path) -> None:
    put(tmp_path / "in", "a.json", [{"id": 1}])
    environment = {**os.environ, "MOORAGE_SPARK_JARS": str(jars)}
    command = [*COMMAND, "ingest", str(tmp_path / "in"), f"{schema}.watched", "--url", server.url, "--watch", "0.1"]
    command += ["--spark-master", "local[2]", "--spark-conf", "spark.driver.memory=1g"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=environment, text=True, stdout=pipe, stderr=pipe) as process:
        assert process.stdout is not None
        assert "1 rows from 1 files" in process.stdout.readline()
        process.stdout.readline()  # of the second look
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, "Traceback" in errors) == (130, False)
