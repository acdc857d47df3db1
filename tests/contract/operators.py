"""Somebody at the database itself, and at the wire to it."""

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
"""With this the database ends its answers, the first time when a session is open."""
_SESSION = re.compile(rb"(?<=K\0\0\0\x0c)....", re.DOTALL)
"""Where the database tells the number of a session's process."""

Open = Callable[..., Awaitable[PostgresLedger]]
Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"  # a type to the checker, no generic to Python


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(10):
        while not await condition():  # noqa: ASYNC110 - the condition lies in the database
            await asyncio.sleep(0.01)


async def waits_for_the_lock(operator: Connection) -> int:
    """The process number of the writer whose call has arrived and is held up."""
    held_up = "select pid from pg_locks where locktype = 'advisory' and not granted"
    await until(lambda: operator.fetchval(f"select exists ({held_up})"))
    return int(await operator.fetchval(held_up))


async def sequence(ledger: PostgresLedger) -> list[int]:
    return [entry.seq for entry in await ledger.entries(0, limit=100_000)]


class Wire:
    """Carries bytes between a ledger and its database. It can lose an answer, or name sessions as a pool does."""

    def __init__(self, url: str) -> None:
        self._port = int(url.rpartition("@")[2].partition(":")[2].partition("/")[0])
        self._ends: set[asyncio.StreamWriter] = set()
        self.swallow_answers = False
        self.swallowed = asyncio.Event()
        self.swallow_once_open = False
        self.is_pool = False

    async def carry(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        server, to_server = await asyncio.open_connection("127.0.0.1", self._port)
        self._ends |= {to_client, to_server}
        await asyncio.gather(self._pump(client, to_server), self._pump(server, to_client, is_answer=True))

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, is_answer: bool = False) -> None:
        try:
            is_open = False
            while data := await source.read(65536):
                if is_answer and (self.swallow_answers or (is_open and self.swallow_once_open)):
                    self.swallowed.set()
                    continue
                sink.write(_SESSION.sub(b"pool", data) if is_answer and self.is_pool else data)
                await sink.drain()
                is_open = is_open or (is_answer and _READY in data)
        except ConnectionError:
            pass
        sink.close()

    def cut(self) -> None:
        for end in self._ends:
            end.transport.abort()
        self._ends.clear()


def follow(standby: PostgresServer, primary: PostgresServer) -> None:
    """Make a server the replica of another."""
    standby.stop()
    shutil.rmtree(standby.data)
    source = ("-h", "127.0.0.1", "-p", str(primary.port), "-U", "postgres")
    run_program(standby.home, "pg_basebackup", *source, "-D", str(standby.data), "-c", "fast", "--write-recovery-conf")
    with (standby.data / "postgresql.conf").open("a") as settings:
        settings.write(f"port = {standby.port}\nunix_socket_directories = '{standby.home}'\n")
    standby.start()
