"""Upkeep on Spark: compaction compared with the same statement by hand, the start of jobs, and what offers cost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import httpx
import psutil
import pyarrow as pa

from bench.report import Row, show
from bench.small_requests import PATH, latencies
from moorage.client import Client
from moorage.client.answers import Job, Lease
from moorage.client.delta import DeltaTables
from moorage.client.delta.data_files import write_files
from moorage.client.spark import SparkSettings, start_session
from moorage.core.rewrites import Shadow
from moorage.pipeline.delta_upkeep import optimise
from moorage.pipeline.program import Program
from moorage.pipeline.programs import PROGRAMS, spark_programs
from moorage.pipeline.warm_session import WarmSession
from moorage.pipeline.worker import Worker
from moorage.testing import delta_writer as write
from moorage.testing.server import ServerProcess
from scripts.steps import TOOLS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES, WARM_UP_FILES, ICEBERG_FILES = 5_000, 100, 300
OFFERS = 30
COMMITTED_FILES = (5_000, 50_000)
_BUSY = "import time; end = time.monotonic() + 3\nwhile time.monotonic() < end: pass"
_ROWS = 20
_SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string()), ("size", pa.float64())])
_FIELDS = {
    "type": "struct",
    "fields": [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in (("id", "long"), ("city", "string"), ("size", "double"))
    ],
}


class _Session(WarmSession):
    """A session that is started already."""

    def __init__(self, session: SparkSession) -> None:
        super().__init__(SparkSettings())
        self._session = session


class _Bench:
    def __init__(self, server: ServerProcess, client: Client, spark: SparkSession, folder: Path) -> None:
        self.server, self.client, self.spark, self.folder = server, client, spark, folder
        self.started: dict[str, float] = {}
        programs = {**PROGRAMS, **spark_programs(_Session(spark))}
        self.programs = {kind: self._timed(program) for kind, program in programs.items()}

    def _timed(self, program: Program) -> Program:
        def run(job: Job, client: Client, progress: Any) -> dict[str, Any]:
            self.started[job.id] = time.monotonic()
            return program(job, client, progress)

        return run

    # --- tables ----------------------------------------------------------------------------------------------------

    def write_data(self, count: int) -> list[dict[str, Any]]:
        """Write small files once. Tables get hard links of them."""
        source = self.folder / f"files{count}"
        source.mkdir()
        adds = []
        for number in range(count):
            ids = range(number * _ROWS, (number + 1) * _ROWS)
            rows = pa.table([list(ids), [f"c{id % 7}" for id in ids], [id / 4 for id in ids]], schema=_SCHEMA)
            adds += write_files(rows.to_batches(), _SCHEMA, (), source.as_uri())
        for add in adds:
            add["source"] = str(source / add["path"])
        return adds

    def _linked(self, adds: list[dict[str, Any]], folder: Path) -> list[dict[str, Any]]:
        folder.mkdir(parents=True, exist_ok=True)
        for add in adds:
            os.link(add["source"], folder / add["path"])
        return [{key: value for key, value in add.items() if key != "source"} for add in adds]

    def managed(self, adds: list[dict[str, Any]]) -> str:
        name = f"t{uuid4().hex}"
        with DeltaTables(self.server.url) as tables:
            new = tables.stage(f"lake.sea.{name}")
            tables.create(new, _FIELDS)
            found = self._linked(adds, Path(new.location.removeprefix("file://").removeprefix("file:")))
            state = tables.state(f"lake.sea.{name}")
            tables.commit(f"lake.sea.{name}", state.table_id, state.schema_string, found)
        return name

    def plain(self, adds: list[dict[str, Any]]) -> str:
        """The same table without a catalog, with the features that the catalog gives its tables."""
        folder = self.folder / f"plain{uuid4().hex}"
        found = self._linked(adds, folder)
        features = ["v2Checkpoint", "deletionVectors", "vacuumProtocolCheck"]
        protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features}
        metadata = {
            "id": str(uuid4()),
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps(_FIELDS),
            "partitionColumns": [],
            "configuration": {"delta.checkpointPolicy": "v2", "delta.enableDeletionVectors": "true"},
        }
        actions = [{"protocol": {**protocol, "writerFeatures": features}}, {"metaData": metadata}]
        actions += [{"add": add} for add in found]
        (folder / "_delta_log").mkdir()
        text = "\n".join(json.dumps(action) for action in actions) + "\n"
        (folder / "_delta_log" / f"{0:020}.json").write_text(text)
        return f"delta.`{folder}`"

    # --- jobs ------------------------------------------------------------------------------------------------------

    @contextmanager
    def working(self) -> Iterator[None]:
        """A worker with a warm session, in a thread."""
        stop = threading.Event()
        worker = Worker(self.client, stop, programs=self.programs)
        thread = threading.Thread(target=worker.run)
        thread.start()
        time.sleep(0.5)  # it is waiting for a job then
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def run(self, enqueue: Callable[[], Job]) -> tuple[float, float]:
        """Enqueue a job, and return the seconds to its start and to its end."""
        before = time.monotonic()
        job = enqueue()
        while (now := self.client.jobs.get(job.id)).ended_at_ms is None:
            time.sleep(0.02)
        if now.state != "succeeded":
            raise RuntimeError(f"{now.kind} {now.state}: {now.error}")
        return self.started[job.id] - before, time.monotonic() - before

    def compact(self, name: str) -> tuple[float, float]:
        return self.run(lambda: self.client.namespaces.create_job("lake", ["sea"], name, "compact"))


def _seconds(work: Callable[[], object]) -> float:
    before = time.monotonic()
    work()
    return time.monotonic() - before


def _compared(what: str, by_hand: Callable[[int], float], job: Callable[[int], float], limit: float) -> list[Row]:
    """Measure a job and the same work by hand twice, in both orders: the second of two finds a warmer machine."""
    hand_s, job_s = [by_hand(0)], [job(0), job(1)]
    hand_s.append(by_hand(1))
    rows = [
        Row(f"{what} by hand, first and last", " ".join(f"{each:.2f} s" for each in hand_s)),
        Row(f"{what} by a job, between them", " ".join(f"{each:.2f} s" for each in job_s)),
    ]
    for order, ratio in zip(
        ("after it", "before it"), (j / h for j, h in zip(job_s, hand_s, strict=True)), strict=True
    ):
        rows.append(Row(f"job {order}, compared with it", f"{ratio:.2f} ×", f"≤ {limit} ×", ratio <= limit))
    return rows


def _delta_rows(bench: _Bench) -> list[Row]:
    few, many = bench.write_data(WARM_UP_FILES), bench.write_data(FILES)
    plain, managed = [bench.plain(many) for _ in range(2)], [bench.managed(many) for _ in range(2)]
    for _ in range(2):
        warm = bench.plain(few)
        bench.spark.sql(f"OPTIMIZE {warm}").collect()
    with bench.working():
        bench.compact(bench.managed(few))
        bench.compact(bench.managed(few))
        return _compared(
            f"OPTIMIZE of {FILES:,} files",
            lambda n: _seconds(lambda: bench.spark.sql(f"OPTIMIZE {plain[n]}").collect()),
            lambda n: bench.compact(managed[n])[1],
            1.3,
        )


def _start_rows(bench: _Bench) -> list[Row]:
    few = bench.write_data(10)
    with bench.working():
        bench.compact(bench.managed(few))
        starts = [bench.compact(bench.managed(few))[0] for _ in range(5)]
        light = [bench.run(lambda: bench.client.jobs.create("audit"))[0] for _ in range(20)]
    start_s, light_ms = max(starts), 1000 * _p99(light)
    return [
        Row("start of a Spark job, warm worker, slowest of 5", f"{start_s:.3f} s", "≤ 2 s", start_s <= 2),
        Row("start of a job without Spark, slowest of 20", f"{light_ms:.0f} ms", "≤ 100 ms", light_ms <= 100),
    ]


def _offer_rows(bench: _Bench) -> list[Row]:
    """Several offers, because there are few requests during one. The shadow before it starts the process for it."""
    adds = bench.write_data(FILES)
    beside_ms = latencies(bench.server.url, _compute)
    cpu_ms, alone_ms, during_ms = list[float](), list[float](), list[float]()
    for _ in range(OFFERS):
        alone_ms += latencies(bench.server.url, _wait)
        lease, shadow = _rewritten(bench, bench.managed(adds))
        worker = bench.client.for_job(lease)
        before_s = _cpu_seconds(bench.server)
        found = latencies(bench.server.url, partial(worker.rewrites.offer, lease.job.subject or "", shadow))
        taken_ms = 1000 * (_cpu_seconds(bench.server) - before_s)
        cpu_ms.append(taken_ms - len(found) * _request_cpu_ms(bench.server))
        during_ms += found
        bench.client.jobs.succeed(lease.job.id, lease.fence, {})
    most, alone, during = max(cpu_ms), _p99(alone_ms), _p99(during_ms)
    return [
        Row(f"CPU of an offer of {FILES:,} removes, the most", f"{most:.0f} ms", "≤ 300 ms", most <= 300),
        Row(f"p99 of other requests between them, of {len(alone_ms)}", f"{alone:.2f} ms"),
        Row("the same beside a process that only computes", f"{_p99(beside_ms):.2f} ms"),
        Row(
            f"p99 of other requests during them, of {len(during_ms)}", f"{during:.2f} ms", "≤ 2 ×", during <= 2 * alone
        ),
    ]


def _wait() -> None:
    """In turns with the work: what else runs on the machine delays requests in both."""
    time.sleep(0.2)


def _compute() -> None:
    """Use a core for three seconds, without a request: the delay that another busy process causes."""
    subprocess.run([sys.executable, "-c", _BUSY], check=True)


def _rewritten(bench: _Bench, name: str) -> tuple[Lease, Shadow]:
    """A compaction that has only to be offered."""
    bench.client.namespaces.create_job("lake", ["sea"], name, "compact")
    lease = bench.client.jobs.take("bench", ["compact"])
    if lease is None:
        raise RuntimeError("the compaction was not leased")
    shadow = bench.client.for_job(lease).rewrites.next_shadow(lease.job.subject or "").shadow
    if shadow is None:
        raise RuntimeError("the table has no small files")
    optimise(_Session(bench.spark), shadow, lease.job, lambda _: None)
    return lease, shadow


def _commit_rows(bench: _Bench) -> list[Row]:
    """Commits with very many actions, staged before the clock starts."""
    _staged_commit(bench, COMMITTED_FILES[0])()
    time.sleep(3)  # the server looks at the health of its first table, for which it loads Arrow
    rows = []
    for actions in COMMITTED_FILES:
        alone_ms, during_ms = list[float](), list[float]()
        for _ in range(OFFERS):
            alone_ms += latencies(bench.server.url, _wait)
            during_ms += latencies(bench.server.url, _staged_commit(bench, actions))
        alone, during = _p99(alone_ms), _p99(during_ms)
        rows += [
            Row(f"p99 of other requests between commits, of {len(alone_ms)}", f"{alone:.2f} ms"),
            Row(
                f"p99 during commits of {actions:,} files, of {len(during_ms)}",
                f"{during:.2f} ms",
                "≤ 2 ×",
                during <= 2 * alone,
            ),
        ]
    return rows


def _staged_commit(bench: _Bench, actions: int) -> Callable[[], object]:
    """A new table, and a commit of so many files to it that has only to be sent."""
    with DeltaTables(bench.server.url) as tables:
        new = tables.stage(f"lake.sea.t{uuid4().hex}")
        tables.create(new, _FIELDS)
    stats = json.dumps(
        {"numRecords": _ROWS, "minValues": {"id": 0, "city": "c0"}, "maxValues": {"id": 19, "city": "c6"}}
    )
    files = [write.add(f"part-{uuid4()}.zstd.parquet", size=1000, stats=stats) for _ in range(actions)]
    info = write.stage(write.folder_of(new.location), 1, time.time_ns() // 1_000_000 + 1, *files)
    body = {"table_id": new.table_id, "table_uri": new.location, "commit_info": info}

    http = httpx.Client(base_url=bench.server.url, timeout=60, trust_env=False)  # to make one takes 15 ms of a core

    def send() -> None:
        with http:
            http.post("/api/2.1/unity-catalog/delta/commit", json=body).raise_for_status()

    return send


def _cpu_seconds(server: ServerProcess) -> float:
    """The CPU time of the server and its processes so far."""
    own = psutil.Process(server.pid)
    return sum(sum(each.cpu_times()[:2]) for each in (own, *own.children(recursive=True)))


def _request_cpu_ms(server: ServerProcess) -> float:
    """What one of the small requests costs the server, so that it can be left out."""
    with httpx.Client(base_url=server.url, trust_env=False) as http:
        before = server.cpu_seconds()
        for _ in range(500):
            http.get(PATH).raise_for_status()
        return 1000 * (server.cpu_seconds() - before) / 500


def _p99(found: list[float]) -> float:
    return sorted(found)[min(len(found) - 1, len(found) * 99 // 100)]


def _iceberg_rows(bench: _Bench) -> list[Row]:
    spark = bench.spark
    spark.conf.set("spark.sql.catalog.ice", "org.apache.iceberg.spark.SparkCatalog")
    for key, value in {"type": "rest", "uri": f"{bench.server.url}/iceberg", "warehouse": "lake"}.items():
        spark.conf.set(f"spark.sql.catalog.ice.{key}", value)

    def table(files: int) -> str:
        name = f"i{uuid4().hex}"
        rows = spark.range(0, files * _ROWS, numPartitions=files).selectExpr("id", "concat('c', id % 7) AS city")
        rows.writeTo(f"ice.sea.{name}").using("iceberg").tableProperty("write.distribution-mode", "none").create()
        return name

    def by_hand(name: str) -> None:
        options = "map('target-file-size-bytes', '134217728', 'min-input-files', '2')"
        spark.sql(f"CALL ice.system.rewrite_data_files(table => 'sea.{name}', options => {options})").collect()
        spark.sql(f"CALL ice.system.rewrite_manifests(table => 'sea.{name}')").collect()

    by_hand(table(20))
    tables = [table(ICEBERG_FILES) for _ in range(4)]
    with bench.working():
        bench.compact(table(20))
        return _compared(
            f"rewrite of {ICEBERG_FILES} Iceberg files",
            lambda n: _seconds(lambda: by_hand(tables[n])),
            lambda n: bench.compact(tables[2 + n])[1],
            1.1,
        )


PARTS = {
    "start": _start_rows,
    "delta": _delta_rows,
    "offer": _offer_rows,
    "commit": _commit_rows,
    "iceberg": _iceberg_rows,
}


def upkeep_rows(folder: Path, parts: Iterable[str] = tuple(PARTS)) -> list[Row]:
    """Measure upkeep with a server and a session of Spark in this process."""
    folder.mkdir(parents=True)
    conf = {"spark.driver.memory": "2g", "spark.local.dir": str(folder / "local")}
    spark = start_session(SparkSettings(master="local[2]", jars=TOOLS / "spark-jars", conf=conf))
    rows: list[Row] = []
    try:
        for part in parts:
            (folder / part).mkdir()
            with ServerProcess(folder / part / "data") as server, Client(server.url) as client:
                client.catalogs.create("lake")
                client.namespaces.create("lake", ["sea"])
                rows += PARTS[part](_Bench(server, client, spark, folder / part))
    finally:
        spark.stop()
    return [*rows, Row("load average at the end", f"{os.getloadavg()[0]:.1f}")]


def main() -> None:
    """Measure some parts only: `python -m bench.upkeep delta offer`."""
    with tempfile.TemporaryDirectory() as name:
        show("Upkeep on Spark", upkeep_rows(Path(name) / "upkeep", sys.argv[1:] or PARTS))


if __name__ == "__main__":
    main()
