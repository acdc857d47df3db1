"""Compares with Unity Catalog's own server, which the user built: no registry offers it."""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager
from pathlib import Path
from urllib.parse import urlsplit

from bench.delta import DeltaLoad
from bench.lines import Cost
from bench.load import Server, running, serving
from bench.peers.turns import JAVA_WARM_UPS, Comparison, Ratio, Target, implied_cpu, in_turns
from moorage.testing.postgres import PostgresServer, free_port

_JARS = Path(__file__).parents[2] / ".tools" / "peers"
_MAIN = "io.unitycatalog.server.UnityCatalogServer"
_CHORES_OFF = ("--chores-interval-seconds", "3600")

_READS: dict[str, Target] = {
    "get table": implied_cpu(0.1, 0.3),
    "get commits": implied_cpu(0.1, 0.27),
    "list 100 tables": implied_cpu(0.5, 26),
}
_CPU = {**_READS, "commit, distinct tables, 16 clients": Ratio(2.5, 2.5)}
_CPU_ON_POSTGRES = {**_READS, "commit, distinct tables, 16 clients": Ratio(3, 3)}


def compare(folder: Path, class_path: Path, turns: int) -> list[Comparison]:
    """Compares on the databases that need no server, and with both on the same PostgreSQL."""
    with (
        PostgresServer.create() as postgres,
        serving(folder / "ours", *_CHORES_OFF) as ours,
        _their_server(folder / "theirs", class_path, _H2) as theirs,
        serving(
            folder / "pg", *_CHORES_OFF, "--database", postgres.new_database("ours"), beside=postgres.pid
        ) as on_postgres,
        _their_server(
            folder / "their_pg", class_path, _on(postgres.new_database("theirs")), beside=postgres.pid
        ) as theirs_on_postgres,
    ):
        costs = asyncio.run(_costs([ours, theirs, on_postgres, theirs_on_postgres], turns))
    sqlite, h2, postgresql, their_postgresql = costs
    title = "Unity Catalog's own server"
    return [
        Comparison(f"{title} on H2; ours on SQLite", sqlite, h2, _CPU, {}),
        Comparison(f"{title} and ours on PostgreSQL", postgresql, their_postgresql, _CPU_ON_POSTGRES, {}),
    ]


async def _costs(servers: list[Server], turns: int) -> list[list[Cost]]:
    return await in_turns([DeltaLoad(server, preview=True) for server in servers], turns, warm_ups=JAVA_WARM_UPS)


_H2 = {
    "driver_class": "org.h2.Driver",
    "url": "jdbc:h2:file:./etc/db/h2db;DB_CLOSE_DELAY=-1",
}


def _on(url: str) -> dict[str, str]:
    database = urlsplit(url)
    return {
        "driver_class": "org.postgresql.Driver",
        "url": f"jdbc:postgresql://{database.hostname}:{database.port}{database.path}",
        "username": database.username or "",
        "pool_size": "32",
    }


def _their_server(
    folder: Path, class_path: Path, connection: dict[str, str], beside: int | None = None
) -> AbstractContextManager[Server]:
    settings = folder / "etc" / "conf"
    settings.mkdir(parents=True)
    (settings / "server.properties").write_text(
        f"server.env=dev\nserver.authorization=disable\nstorage-root.tables={(folder / 'tables').as_uri()}\n"
    )
    lines = [f"hibernate.connection.{name}={value}" for name, value in connection.items()]
    (settings / "hibernate.properties").write_text("\n".join(["hibernate.hbm2ddl.auto=update", *lines, ""]))
    (settings / "server.log4j2.properties").write_text("rootLogger.level=off\n")
    port = free_port()
    driver = next(_JARS.glob("postgresql-*.jar"))
    command = ["java", "-cp", f"{class_path.read_text().strip()}:{driver}", _MAIN, "-p", str(port)]
    return running(command, port, beside=beside, ready="/api/2.1/unity-catalog/catalogs", folder=folder)
