"""The autopilot: checks the health of all tables, a few at a time, and enqueues due work where the policy is `auto`.

Any number of servers may do this: the dedupe key of a job makes it one job. What a server knows about the tables that
it has checked is in memory, for its metrics.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import AsyncGenerator
from typing import Final

import msgspec

from moorage.core.autopilot import Due, has_room, next_job
from moorage.core.callers import SYSTEM, Caller
from moorage.core.health import Policy, applied_policy, due_work
from moorage.core.ids import SecurableId
from moorage.core.securables import Kind, Shelf
from moorage.usecases.catalog.addresses import Chain, find_by_id
from moorage.usecases.catalog.walks import objects_on
from moorage.usecases.local_state import CacheKind
from moorage.usecases.parts import Part
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.settling.settle import settle
from moorage.usecases.upkeep.compaction import prepare_table_job
from moorage.usecases.upkeep.table_health import TableHealth, check_health

log = logging.getLogger(__name__)

_MAX_TABLES: Final = 100
_MAX_SECONDS: Final = 2.0
"""A run ends after so many tables or so much time; the next run continues there."""
_MAX_DUE: Final = 500
"""Jobs in the queue, counted up to this number. With more workers than a fifth of it, the limit is a little lower."""
_LAST_JOBS: Final = 20
_DAY_MS: Final = 24 * 60 * 60 * 1000
_MANY_VERSIONS: Final = 10
_BUSY_PAUSE_MS: Final = 60 * 1000
_PAUSE_MS: Final = 10 * 60 * 1000
"""A table with new versions is checked again after this time; after the shorter one if the new versions are many."""
UNHEALTHY: Final = 50
"""Below this score, a table counts as unhealthy in the metrics."""


class Checked(msgspec.Struct, frozen=True):
    """What a server remembers of a table that it has checked."""

    version: int
    at_ms: int
    health: TableHealth | None
    """None if the health is unknown: the format states nothing, or the files could not be read."""

    def is_recent(self, version: int, now_ms: int) -> bool:
        """Whether it need not be checked again. A table that is written all the time is not checked all the time."""
        age_ms = now_ms - self.at_ms
        if version == self.version:
            return age_ms < _DAY_MS
        many = version - self.version >= _MANY_VERSIONS
        return age_ms < (_BUSY_PAUSE_MS if many else _PAUSE_MS)


class Round:
    """One round over all tables, continued by each run."""

    def __init__(self, tables: AsyncGenerator[Chain, None]) -> None:
        self.tables = tables
        self.checked: dict[SecurableId, Checked] = {}
        self.last: dict[SecurableId, Checked] = {}
        """What the previous complete round found."""

    def start_again(self, tables: AsyncGenerator[Chain, None]) -> None:
        """Begin the next round. Tables that this one did not meet were dropped, and are forgotten."""
        self.last, self.checked, self.tables = self.checked, {}, tables

    def find(self, table: SecurableId) -> Checked | None:
        return self.checked.get(table) or self.last.get(table)

    @property
    def known(self) -> list[TableHealth]:
        """The newest that is known about each table."""
        return [each.health for each in {**self.last, **self.checked}.values() if each.health is not None]


_ROUND: Final = CacheKind[str, Round]("the round of the autopilot", limit=1)


async def look_after_tables(ports: Ports) -> int:
    """Check the next tables, and enqueue what is due. Returns the number of jobs enqueued."""
    walk = ports.local.cache(_ROUND).get("round")
    if walk is None:
        walk = Round(_tables(ports))
        ports.local.cache(_ROUND).put("round", walk)
    deadline = time.monotonic() + _MAX_SECONDS
    enqueued = 0
    for _ in range(_MAX_TABLES):
        chain = await anext(walk.tables, None)
        if chain is None:
            walk.start_again(_tables(ports))
            break
        enqueued += await _look_after(ports, walk, chain)
        if time.monotonic() > deadline:
            break
    return enqueued


async def _look_after(ports: Ports, walk: Round, chain: Chain) -> int:
    table = chain[-1]
    policy = _policy(chain)
    if policy is Policy.OFF or table.head is None:
        return 0
    found = walk.find(table.id)
    if found is None or not found.is_recent(table.head.version, ports.now_ms()):
        found = Checked(table.head.version, ports.now_ms(), await _check(ports, chain))
    walk.checked[table.id] = found
    if policy is not Policy.AUTO or found.health is None:
        return 0
    return await _enqueue(ports, table.id, found.health)


async def _check(ports: Ports, chain: Chain) -> TableHealth | None:
    """The health of one table. A table whose files cannot be read must not keep the others from being checked."""
    try:
        return await check_health(ports, SYSTEM, chain)
    except Exception as error:  # noqa: BLE001 - the files of a table may be damaged in any way
        log.warning("the health of table %s is unknown: %s", chain[-1].id, error)
        return None


def _policy(chain: Chain) -> Policy:
    return applied_policy((each.name, each.doc.properties) for each in chain).policy


async def _enqueue(ports: Ports, table: SecurableId, found: TableHealth) -> int:
    wanted = await _due(ports, table, found)
    if wanted is None or not has_room(wanted.kind, await ports.ledger.due_jobs(limit=_MAX_DUE)):
        return 0
    enqueued = 0

    async def prepare(_: Caller) -> list[Part]:
        """Decide again on what the ledger holds now: another server may have been faster."""
        nonlocal enqueued
        enqueued = 0
        chain = await find_by_id(ports.ledger, table)
        due = await _due(ports, table, found) if chain and _policy(chain) is Policy.AUTO else None
        if due is None:
            return [Part()]
        part = await prepare_table_job(ports, chain[-1], due.kind, {"reason": due.reason, "score": due.score})
        enqueued = len(part.jobs)
        return [part]

    await settle(ports, Errand(caller=SYSTEM, api="chores", request="upkeep"), prepare)
    return enqueued


async def _due(ports: Ports, table: SecurableId, found: TableHealth) -> Due | None:
    if not due_work(found.findings):
        return None
    jobs = await ports.ledger.jobs(subject=table, limit=_LAST_JOBS, descending=True)
    kinds = ports.formats.by_name[found.format].job_kinds if found.format in ports.formats.by_name else ()
    return next_job(found.findings, found.score, jobs, kinds, now_ms=ports.now_ms())


# --- the walk -----------------------------------------------------------------------------------


async def _tables(ports: Ports) -> AsyncGenerator[Chain, None]:
    """All tables with their ancestors."""
    async for chain in objects_on(ports, Shelf.RELATION):
        if chain[-1].kind is Kind.TABLE:
            yield chain


# --- metrics ------------------------------------------------------------------------------------


class Totals(msgspec.Struct, frozen=True):
    """Counts of tables for metrics. Labels are formats and problems, never tables, so their number is bounded."""

    checked: dict[tuple[str, ...], int]
    unhealthy: dict[tuple[str, ...], int]
    findings: dict[tuple[str, ...], int]


def totals(ports: Ports) -> Totals:
    """What this server knows about the tables that it has checked."""
    walk = ports.local.cache(_ROUND).get("round")
    checked, unhealthy, findings = Counter[tuple[str, ...]](), Counter[tuple[str, ...]](), Counter[tuple[str, ...]]()
    for each in () if walk is None else walk.known:
        checked[each.format,] += 1
        unhealthy[each.format,] += each.score < UNHEALTHY
        findings.update((each.format, str(found.problem)) for found in each.findings)
    return Totals(dict(checked), dict(unhealthy), dict(findings))
