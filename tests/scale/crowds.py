"""Ledgers with very many objects, and a measure of how long other clients wait."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import psutil

from moorage.core.ids import SecurableId
from moorage.ledger.port import Ledger
from moorage.ledger.sqlite import SqliteLedger
from moorage.ledger.sqlite.connections import FILE
from moorage.testing import builders as make
from moorage.testing.postgres import PostgresServer
from moorage.testing.server import ServerProcess

PROBE = Path(__file__).with_name("probe.py")
MAX_WAIT_SECONDS = 0.1
TRIES = 5
TOO_FEW_REQUESTS = 20
"""A measurement with no more requests than this proves nothing."""


class Wait(NamedTuple):
    """The longest wait for the server, in seconds, and the number of requests."""

    longest: float
    requests: int


class Bystander:
    """Another client of the same server, in a process of its own."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def waited(self) -> Wait:
        """The longest wait since the last call."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "a request of the bystander was refused"
        return Wait(**json.loads(line))


@contextmanager
def bystander(server: ServerProcess, postgres: PostgresServer | None = None) -> Iterator[Bystander]:
    pids = [server.pid, *(processes_of(postgres) if postgres else ())]
    command = [sys.executable, str(PROBE), str(server.port), *map(str, pids)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Bystander(process)
        finally:
            process.kill()


def processes_of(postgres: PostgresServer) -> list[int]:
    return [process.pid for process in psutil.Process(postgres.pid).children()]


class Verdict(NamedTuple):
    """The waits without load, and under load."""

    idle: Wait
    busy: Wait

    @property
    def is_short(self) -> bool:
        """Short enough, or on a slow disk at most twice the wait without load."""
        return self.busy.longest <= max(MAX_WAIT_SECONDS, 2 * self.idle.longest)


async def require_short_waits(measure: Callable[[], Awaitable[Verdict]]) -> None:
    """Require one good verdict in a few tries: noise varies, but a server that blocks does so every time."""
    verdicts = []
    for _ in range(TRIES):
        verdict = await measure()
        assert verdict.busy.requests > TOO_FEW_REQUESTS, f"the bystander completed too few requests: {verdict}"
        if verdict.is_short:
            return
        verdicts.append(verdict)
    raise AssertionError(f"the bystander waited too long in every try: {verdicts}")


async def create_tree(ledger: Ledger, name: str, objects: int) -> SecurableId:
    """Create a catalog with this many namespaces and tables through the port of the ledger."""
    catalog = make.catalog(ledger.root, name)
    await make.add(ledger, catalog)
    for n in range(objects // 1000):
        space = make.namespace(catalog.id, f"s{n:06}")
        await make.add(ledger, space, *[make.table(space.id, f"t{k:03}") for k in range(999)])
    return catalog.id


async def create_crowded_ledger(data: Path, *, big: int, small: int) -> None:
    """Create the catalogs `big` and `small` with this many namespaces, and the bystander's catalog.

    SQL copies the namespaces, without the ledger: as drafts they would take a minute.
    """
    ledger = await SqliteLedger.open(data)
    await make.add(ledger, make.catalog(ledger.root, "bystander"))
    crowds = {}
    for name, copies in (("big", big), ("small", small)):
        catalog = make.catalog(ledger.root, name)
        first = make.namespace(catalog.id, "n00000000")
        await make.add(ledger, catalog, first)
        crowds[first.id] = copies
    await ledger.close()
    for first_id, copies in crowds.items():
        _multiply(data / FILE, first_id, copies)


def _multiply(file: Path, id: SecurableId, copies: int) -> None:
    db = sqlite3.connect(file)
    columns = [row[0] for row in db.execute("select name from pragma_table_info('securable')")]
    own = {
        "id": "id || printf('-%08d', n)",
        "name": "printf('n%08d', n)",
        "name_key": "printf('n%08d', n)",
    }
    with db:
        db.execute(
            f"with recursive many (n) as (select 1 union all select n + 1 from many where n < {copies}) "
            f"insert into securable select {', '.join(own.get(column, column) for column in columns)} "
            "from many, securable where id = ?",
            (id,),
        )
    db.close()
