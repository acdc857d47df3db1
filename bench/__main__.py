"""`make bench`: the speed of the catalog, compared with the raw speed of the same databases in the same run."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from pathlib import Path

from bench.access import access_rows
from bench.delta import delta_rows
from bench.iceberg import iceberg_rows
from bench.iceberg_flat import flat_rows
from bench.iceberg_plans import plan_rows
from bench.lance import lance_rows
from bench.listing import listing_rows
from bench.load import Load, Server, answering_fixed_bytes, fill, serving, update_script
from bench.on_postgres import on_postgres_rows
from bench.pipelines import pipeline_rows
from bench.raw import pgbench_swaps_per_second, sqlite_swaps
from bench.report import Row, show
from bench.sharing import sharing_rows
from bench.snapshots import snapshot_rows
from bench.sustained import sustained_rows
from bench.uniform import uniform_rows
from bench.upkeep import upkeep_rows
from moorage.testing.postgres import PostgresServer, programs

_CALLERS = (1, 16, 64)


def _described(load: Load) -> str:
    return (
        f"{load.per_second:8,.0f}/s  p50 {load.p50_ms:6.2f} ms  p99 {load.p99_ms:6.2f} ms  CPU {load.cpu_us:5.0f} µs"
        + (f"  {load.failed} failed" if load.failed else "")
    )


def _loads(server: Server, folder: Path) -> tuple[dict[int, Load], dict[int, Load]]:
    fill(server.url)
    script = update_script(folder)
    writes = {callers: server.run(callers, script=script) for callers in _CALLERS}
    path = "/api/moorage/v1/catalogs/bench/namespaces/n7"
    reads = {callers: server.run(callers, path) for callers in _CALLERS}
    return writes, reads


def _sqlite(folder: Path) -> None:
    one_by_one = sqlite_swaps(folder, 1)
    in_batches = sqlite_swaps(folder, 64)
    os.sync()  # their pending writes must not slow down the server
    with answering_fixed_bytes() as server:
        script = update_script(folder)
        floors = {callers: server.run(callers, script=script, seconds=2) for callers in _CALLERS}
    with serving(folder / "data") as server:
        writes, reads = _loads(server, folder)
        first = server.first_answer_s
    by_one = writes[64].per_second / one_by_one.per_second
    by_batches = writes[64].per_second / in_batches.per_second
    show(
        "SQLite: appends over HTTP, compared with the raw limits of the same database",
        [
            Row("raw: one swap per fsync", f"{one_by_one.per_second:8,.0f}/s  CPU {one_by_one.cpu_us:5.0f} µs"),
            Row("raw: batches of 64", f"{in_batches.per_second:8,.0f}/s  CPU {in_batches.cpu_us:5.0f} µs"),
            *(Row(f"floor: fixed bytes, {n} callers", _described(load)) for n, load in floors.items()),
            *(Row(f"append, {n} callers", _described(load)) for n, load in writes.items()),
            Row("compared with one swap per fsync", f"{by_one:.2f} ×", "≥ 2 ×", by_one >= 2),
            Row("compared with batches of 64", f"{by_batches:.2f} ×", "≥ 0.25 ×", by_batches >= 0.25),
            Row("p99 at 16 callers", f"{writes[16].p99_ms:.2f} ms", "< 10 ms", writes[16].p99_ms < 10),
            Row("CPU per append at 64 callers", f"{writes[64].cpu_us:.0f} µs", "≤ 150 µs", writes[64].cpu_us <= 150),
            *(Row(f"read, {n} callers", _described(load)) for n, load in reads.items()),
            Row("CPU per read at 64 callers", f"{reads[64].cpu_us:.0f} µs", "≤ 100 µs", reads[64].cpu_us <= 100),
            Row("first response after start", f"{first:.2f} s", "≤ 1.5 s", first <= 1.5),
        ],
    )


def _postgres(folder: Path) -> None:
    with PostgresServer.create() as postgres:
        raw = pgbench_swaps_per_second(programs(), postgres.new_database("raw"), folder, 64)
        with serving(folder / "pg", "--database", postgres.new_database("bench"), beside=postgres.pid) as server:
            writes, reads = _loads(server, folder)
    show(
        "PostgreSQL: appends over HTTP, compared with pgbench",
        [
            Row("raw: pgbench, 64 clients", f"{raw:8,.0f}/s"),
            *(Row(f"append, {n} callers", _described(load)) for n, load in writes.items()),
            Row("compared with pgbench at 64 clients", f"{writes[64].per_second / raw:.2f} ×", "0.79 × (prototype)"),
            *(Row(f"read, {n} callers", _described(load)) for n, load in reads.items()),
        ],
    )


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _sqlite(folder)
        _postgres(folder)
        show("Listing 100 names", asyncio.run(listing_rows(folder / "names")))
        show("10,000 principals, 1,000 groups and 100,000 grants, 16 callers", access_rows(folder / "access"))
        with PostgresServer.create() as postgres:
            show("The same on PostgreSQL: the server + its database", access_rows(folder / "access-pg", postgres))
        show("Managed Delta tables over HTTP", delta_rows(folder / "managed"))
        show("Iceberg tables over HTTP", iceberg_rows(folder / "iceberg"))
        show("Iceberg: from 5,000 tables to 100,000 (about two minutes)", flat_rows(folder / "crowd"))
        show("Server-side scan planning for an Iceberg table", plan_rows(folder / "plans"))
        show("Lance tables over HTTP", lance_rows(folder / "lance"))
        show("Sixteen writers at full speed: publishing keeps up", sustained_rows(folder / "sustained"))
        for api, rows in on_postgres_rows(folder / "apis"):
            show(f"{api} tables on PostgreSQL: the server + its database", rows)
        show("A Delta table of 100,000 files", snapshot_rows(folder / "delta"))
        show("Delta Sharing over HTTP", sharing_rows(folder / "sharing"))
        show("The same size, converted for Iceberg clients", uniform_rows(folder / "uniform"))
        show("Upkeep on Spark", upkeep_rows(folder / "upkeep"))
        show("Ingest and pipelines on Spark", pipeline_rows(folder / "pipelines"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
