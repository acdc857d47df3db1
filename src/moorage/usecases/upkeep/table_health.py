"""The health of a table: its facts, what is wrong, and what the policy of its owner allows."""

from __future__ import annotations

from typing import Final

import msgspec

from moorage.core.callers import Caller
from moorage.core.errors import InvalidInput
from moorage.core.health import AppliedPolicy, Finding, TableFacts, applied_policy, findings, score
from moorage.core.ids import SecurableId
from moorage.core.jobs import Job
from moorage.core.privileges import Privilege
from moorage.usecases.catalog.addresses import Address, Chain, reach
from moorage.usecases.local_state import CacheKind
from moorage.usecases.ports import Ports

_KEPT_MS: Final = 60 * 60 * 1000
"""After this time, facts of the same version are read again: versions become old without a commit."""
_LAST_JOBS: Final = 5


class TableHealth(msgspec.Struct, frozen=True, kw_only=True):
    """The health of a table at its newest version."""

    format: str
    score: int
    facts: TableFacts
    findings: tuple[Finding, ...]
    policy: AppliedPolicy


class _Known(msgspec.Struct, frozen=True):
    at_ms: int
    facts: TableFacts


_FACTS: Final = CacheKind[tuple[SecurableId, int, int], _Known]("table facts", limit=100_000)
"""By table, revision and version. They are read at most once an hour for one version."""


async def get_table_health(ports: Ports, caller: Caller, address: Address) -> tuple[TableHealth, tuple[Job, ...]]:
    """The health of a table, and the last jobs that worked on it."""
    chain = await reach(ports, caller, address, Privilege.READ)
    found = await check_health(ports, caller, chain)
    if found is None:
        raise InvalidInput(f"'{address}' has no files whose health the catalog knows", field="table")
    jobs = await ports.ledger.jobs(subject=chain[-1].id, limit=_LAST_JOBS, descending=True)
    return found, jobs


async def check_health(ports: Ports, caller: Caller, chain: Chain) -> TableHealth | None:
    """The health of a table; None if its format states nothing about its files."""
    table = chain[-1]
    facts = await _facts(ports, caller, chain)
    if facts is None or table.doc.table is None:
        return None
    found = findings(facts)
    return TableHealth(
        format=table.doc.table.format,
        score=score(found),
        facts=facts,
        findings=found,
        policy=applied_policy((each.name, each.doc.properties) for each in chain),
    )


async def _facts(ports: Ports, caller: Caller, chain: Chain) -> TableFacts | None:
    table, known = chain[-1], ports.local.cache(_FACTS)
    if table.head is None:  # the catalog does not know when such a table changes
        return await ports.formats.of(table).health(ports, caller, chain)
    key = (table.id, table.revision, table.head.version)
    found = known.get(key)
    if found is not None and ports.now_ms() - found.at_ms < _KEPT_MS:
        return found.facts
    facts = await ports.formats.of(table).health(ports, caller, chain)
    if facts is not None:
        known.put(key, _Known(ports.now_ms(), facts))
    return facts
