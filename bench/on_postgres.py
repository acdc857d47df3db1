"""The three APIs on PostgreSQL: the cost of each kind of request for the server, and for the database."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

from bench import iceberg, lance
from bench.delta import DeltaLoad
from bench.iceberg import IcebergLoad
from bench.lance import LanceLoad
from bench.lines import Cost
from bench.load import Server, serving
from bench.report import Row, apart
from moorage.testing.postgres import PostgresServer


def on_postgres_rows(folder: Path) -> Iterator[tuple[str, list[Row]]]:
    """Yields the name of each API and its rows: as on SQLite, without Iceberg's concurrent writers of one table."""
    with PostgresServer.create() as postgres:
        # Chores are off: publishing would be counted in whatever is measured two seconds later.
        settings = ("--chores-interval-seconds", "3600", "--database", postgres.new_database("bench"))
        with serving(folder, *settings, beside=postgres.pid) as server:
            yield "Delta", [apart(cost) for cost in asyncio.run(DeltaLoad(server).costs())]
            yield "Iceberg", [apart(cost) for cost in asyncio.run(_iceberg(server))]
            yield "Lance", [apart(cost) for cost in asyncio.run(LanceLoad(server, lance.OURS).costs())]


async def _iceberg(server: Server) -> list[Cost]:
    load = IcebergLoad(server, iceberg.OURS)  # in the catalog that DeltaLoad created
    return await load.requests(await load.make_namespace("sea"))
