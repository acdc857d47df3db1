"""Fixtures for tests of the PostgreSQL ledger."""

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from moorage.ledger.postgres import PostgresLedger
from tests.contract.operators import Connection, DatabaseProxy, Open


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
    """A direct connection to the database."""
    connection = await asyncpg.connect(database_url)
    yield connection
    await connection.close()


@pytest.fixture
async def proxied(database_url: str) -> AsyncIterator[tuple[DatabaseProxy, str]]:
    """A proxy to the test's database, and the URL of the database behind it."""
    proxy = DatabaseProxy(database_url)
    server = await asyncio.start_server(proxy.forward, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    yield proxy, f"postgresql://postgres@127.0.0.1:{port}/{database_url.rpartition('/')[2]}"
    server.close()
    proxy.cut()
    await asyncio.sleep(0.05)
