"""Compares with Iceberg's own REST server: its catalog in PostgreSQL, its files on disk or in memory."""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager
from pathlib import Path
from urllib.parse import urlsplit

from bench.iceberg import OURS, IcebergLoad, make_catalog
from bench.lines import Cost
from bench.load import Server, running, serving
from bench.peers.turns import JAVA_WARM_UPS, AtLeast, AtMost, Comparison, Target, implied_cpu, implied_rate, in_turns
from moorage.testing.postgres import PostgresServer, free_port

_JARS = Path(__file__).parents[2] / ".tools" / "peers"
_MAIN = "org.apache.iceberg.rest.RESTCatalogServer"
_IN_MEMORY = {"CATALOG_IO__IMPL": "org.apache.iceberg.inmemory.InMemoryFileIO"}
_THEIRS = "/v1/namespaces"
_ROUNDS = 2
_WRITE_SECONDS = 2.0

_LOAD = implied_cpu(0.1, 0.2, 0.4)
_COMMIT, _COMMIT_IN_MEMORY = implied_cpu(0.5, 7.5), implied_cpu(0.5, 0.7)
_CPU: dict[str, Target] = {
    "create": implied_cpu(0.7, 12.6, 13.3),
    "set a property": _COMMIT,
    "add a snapshot": _COMMIT,
    "load": _LOAD,
}
_RACED = {"writers of snapshots": AtMost(1.5, 1.5)}
_CPU_IN_MEMORY = {
    "create": implied_cpu(0.7, 0.9, 1.1),
    "set a property": _COMMIT_IN_MEMORY,
    "add a snapshot": _COMMIT_IN_MEMORY,
    "load": _LOAD,
}
_CPU_ON_POSTGRES = {**_CPU, "load": AtMost(0.25, 0.15), "list 100 tables": AtMost(0.5, 0.5)}
_RATES = {"writers of properties": implied_rate(570, 57), "writers of snapshots": AtLeast(500)}
_RATES_ON_POSTGRES = {**_RATES, "writers of snapshots": implied_rate(250, 25)}
_RATES_IN_MEMORY = {"writers of properties": implied_rate(570, 92), "writers of snapshots": implied_rate(250, 33)}


def compare(folder: Path, turns: int) -> list[Comparison]:
    with (
        PostgresServer.create() as postgres,
        serving(folder / "ours") as ours,
        serving(folder / "pg", "--database", postgres.new_database("ours"), beside=postgres.pid) as on_postgres,
        _their_server(postgres, folder / "files") as on_disk,
        _their_server(postgres, folder / "memory", _IN_MEMORY) as in_memory,
    ):
        costs = asyncio.run(_costs([ours, on_postgres], [on_disk, in_memory], turns))
    sqlite, postgresql, files, memory = costs
    title = "Iceberg's own server: PostgreSQL, files"
    return [
        Comparison(f"{title} on disk; ours: SQLite, files on disk", sqlite, files, _CPU | _RACED, _RATES),
        Comparison(f"{title} in memory; ours: SQLite, files on disk", sqlite, memory, _CPU_IN_MEMORY, _RATES_IN_MEMORY),
        Comparison(
            f"{title} on disk; ours: PostgreSQL, files on disk",
            *(postgresql, files, _CPU_ON_POSTGRES, _RATES_ON_POSTGRES),
        ),
    ]


async def _costs(ours: list[Server], theirs: list[Server], turns: int) -> list[list[Cost]]:
    for server in ours:
        await make_catalog(server)
    servers = [*((server, OURS) for server in ours), *((server, _THEIRS) for server in theirs)]
    return await in_turns(
        [IcebergLoad(server, prefix, rounds=_ROUNDS, crowd_seconds=_WRITE_SECONDS) for server, prefix in servers],
        turns,
        warm_ups=JAVA_WARM_UPS,
    )


def _their_server(
    postgres: PostgresServer, warehouse: Path, more: dict[str, str] | None = None
) -> AbstractContextManager[Server]:
    port, database = free_port(), urlsplit(postgres.new_database("theirs"))
    settings = {
        "CATALOG_URI": f"jdbc:postgresql://{database.hostname}:{database.port}{database.path}",
        "CATALOG_JDBC_USER": database.username or "",
        "CATALOG_WAREHOUSE": str(warehouse),
        "CATALOG_REST_PORT": str(port),
        **(more or {}),
    }
    # Its log is off: a stack trace for each conflict would cost many times as much as the conflict itself.
    command = ["java", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off", "-cp", f"{_JARS}/*", _MAIN]
    return running(command, port, beside=postgres.pid, ready="/v1/config", environment=settings)
