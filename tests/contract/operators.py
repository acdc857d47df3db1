"""Direct access to the database, and a proxy in front of it."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import asyncpg

from moorage.ledger.postgres import PostgresLedger
from moorage.testing.postgres import PostgresServer, run_program

LEDGER_LOCK = 7667201
_READY = b"Z\0\0\0\5I"
"""The message that ends each response of the database. The first one means that the session is open."""
_SESSION = re.compile(rb"(?<=K\0\0\0\x0c)....", re.DOTALL)
"""The bytes with the process id of a session."""

Open = Callable[..., Awaitable[PostgresLedger]]
Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"  # generic for the type checker, but not at run time


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(10):
        while not await condition():  # noqa: ASYNC110 - the condition is in the database
            await asyncio.sleep(0.01)


async def wait_for_blocked_writer(operator: Connection) -> int:
    """Wait until a writer waits for the lock of the ledger, and return its process id."""
    blocked = "select pid from pg_locks where locktype = 'advisory' and not granted"
    await until(lambda: operator.fetchval(f"select exists ({blocked})"))
    return int(await operator.fetchval(blocked))


async def sequence(ledger: PostgresLedger) -> list[int]:
    return [entry.seq for entry in await ledger.entries(0, limit=100_000)]


class DatabaseProxy:
    """Forwards bytes between a ledger and its database. It can lose responses, or change session ids like a pooler."""

    def __init__(self, url: str) -> None:
        self._port = int(url.rpartition("@")[2].partition(":")[2].partition("/")[0])
        self._ends: set[asyncio.StreamWriter] = set()
        self.lose_responses = False
        self.lost = asyncio.Event()
        self.lose_responses_once_open = False
        self.is_pool = False

    async def forward(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        server, to_server = await asyncio.open_connection("127.0.0.1", self._port)
        self._ends |= {to_client, to_server}
        await asyncio.gather(self._pump(client, to_server), self._pump(server, to_client, is_response=True))

    async def _pump(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, is_response: bool = False
    ) -> None:
        try:
            is_open = False
            while data := await source.read(65536):
                if is_response and (self.lose_responses or (is_open and self.lose_responses_once_open)):
                    self.lost.set()
                    continue
                sink.write(_SESSION.sub(b"pool", data) if is_response and self.is_pool else data)
                await sink.drain()
                is_open = is_open or (is_response and _READY in data)
        except ConnectionError:
            pass
        sink.close()

    def cut(self) -> None:
        for end in self._ends:
            end.transport.abort()
        self._ends.clear()


def make_replica(standby: PostgresServer, primary: PostgresServer) -> None:
    """Make a server the replica of another."""
    standby.stop()
    shutil.rmtree(standby.data)
    source = ("-h", "127.0.0.1", "-p", str(primary.port), "-U", "postgres")
    run_program(standby.home, "pg_basebackup", *source, "-D", str(standby.data), "-c", "fast", "--write-recovery-conf")
    with (standby.data / "postgresql.conf").open("a") as settings:
        settings.write(f"port = {standby.port}\nunix_socket_directories = '{standby.home}'\n")
    standby.start()
