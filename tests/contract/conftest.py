"""What the tests of PostgreSQL's ledger may ask for."""

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from moorage.ledger.postgres import PostgresLedger
from tests.contract.operators import Connection, Open, Wire


@pytest.fixture
async def open_server(database_url: str) -> AsyncIterator[Open]:
    """Opens another server's ledger on the test's database."""
    opened: list[PostgresLedger] = []

    async def open_one(url: str = database_url, patience_s: float = 10.0) -> PostgresLedger:
        opened.append(await PostgresLedger.open(url, patience_s=patience_s))
        return opened[-1]

    yield open_one
    for ledger in opened:
        await ledger.close()


@pytest.fixture
async def operator(database_url: str) -> AsyncIterator[Connection]:
    """Somebody at the database itself."""
    connection = await asyncpg.connect(database_url)
    yield connection
    await connection.close()


@pytest.fixture
async def wire(database_url: str) -> AsyncIterator[tuple[Wire, str]]:
    wire = Wire(database_url)
    server = await asyncio.start_server(wire.carry, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    yield wire, f"postgresql://postgres@127.0.0.1:{port}/{database_url.rpartition('/')[2]}"
    server.close()
    wire.cut()
    await asyncio.sleep(0.05)
