"""Ledgers with very many objects, and a measure of how long others wait meanwhile."""

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
LONGEST_WAIT_SECONDS = 0.1
TRIES = 5
FEW = 20
"""So few requests prove nothing."""


class Wait(NamedTuple):
    """The longest wait for the server, in seconds, over so many requests."""

    longest: float
    asked: int


class Bystander:
    """Somebody who wants something else of the same server."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def waited(self) -> Wait:
        """The longest wait since this was last asked."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the bystander was refused"
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
    """Waits while nothing went on, and while it did."""

    calm: Wait
    busy: Wait

    @property
    def is_good(self) -> bool:
        """A disk that makes callers wait by itself proves nothing; then the two are compared."""
        return self.busy.longest <= max(LONGEST_WAIT_SECONDS, 2 * self.calm.longest)


async def nobody_waits_during(measure: Callable[[], Awaitable[Verdict]]) -> None:
    """Good once in a few tries: noise comes and goes, a server that blocks does so every time."""
    seen = []
    for _ in range(TRIES):
        verdict = await measure()
        assert verdict.busy.asked > FEW, f"others hardly got a word in: {verdict}"
        if verdict.is_good:
            return
        seen.append(verdict)
    raise AssertionError(f"others waited too long, every time: {seen}")


async def plant_tree(ledger: Ledger, name: str, objects: int) -> SecurableId:
    """A catalog with so many namespaces and tables in it, made through the ledger's own door."""
    catalog = make.catalog(ledger.root, name)
    await make.add(ledger, catalog)
    for n in range(objects // 1000):
        space = make.namespace(catalog.id, f"s{n:06}")
        await make.add(ledger, space, *[make.table(space.id, f"t{k:03}") for k in range(999)])
    return catalog.id


async def sqlite_with_a_crowd(data: Path, *, big: int, small: int) -> None:
    """Catalogs `big` and `small` with so many namespaces each, beside the bystander's.

    The copies are put there behind the ledger's back: as drafts they would take a minute.
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
