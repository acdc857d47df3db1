"""What is known about the fragments of a Lance table."""

from __future__ import annotations

from typing import Final

from moorage.core.callers import Caller
from moorage.core.health import Files, TableFacts, avoidable
from moorage.core.securables import MAIN, Kind, Securable
from moorage.datasets import health
from moorage.formats.lance.statistics import FragmentFacts
from moorage.usecases.catalog.addresses import Address, Chain
from moorage.usecases.catalog.relations import RETENTION_DAYS
from moorage.usecases.lance.lookup import client_location
from moorage.usecases.lance.work import TableLines
from moorage.usecases.ports import Errand, Ports

TARGET_ROWS: Final = 1024 * 1024
"""Lance's own target for the rows of a fragment."""
DEFAULT_RETENTION_DAYS: Final = 14
"""Lance's own default for the age of versions that it cleans up."""
_DAY_MS: Final = 24 * 60 * 60 * 1000
_MAX_COUNTED: Final = 1_000


async def table_facts(ports: Ports, caller: Caller, chain: Chain) -> TableFacts | None:
    """The facts about the newest version of the main line; None if the table has no version yet."""
    table = chain[-1]
    if table.head is None:
        return None
    errand = Errand(caller=caller, api="chores", request="health")
    lines = TableLines(ports, errand, Address(Kind.TABLE, tuple(each.name for each in chain)), table)
    found = await ports.worker_pool.run(lines, client_location(table), health.fragment_facts)
    return to_facts(found, old_versions=await _old_versions(ports, table))


def to_facts(found: FragmentFacts, *, old_versions: int) -> TableFacts:
    small = [rows for rows in found.rows if rows < TARGET_ROWS]
    group = Files(count=len(found.rows), small=len(small), small_bytes=sum(small))
    return TableFacts(
        version=found.version,
        files=len(found.rows),
        bytes=found.bytes,
        rows=sum(found.rows) + found.deleted_rows,
        small_files=len(small),
        avoidable_files=avoidable([group], TARGET_ROWS),
        deleted_rows=found.deleted_rows,
        delete_files=found.deletion_files,
        old_versions=old_versions,
        unindexed_rows=found.unindexed_rows,
    )


def retention_days(table: Securable) -> int:
    """For how many days the versions of a table are kept."""
    stated = table.doc.details.get(RETENTION_DAYS)
    return stated if isinstance(stated, int) else DEFAULT_RETENTION_DAYS


async def _old_versions(ports: Ports, table: Securable) -> int:
    """The number of versions beyond the retention, counted up to a limit.

    The newest of them does not count: it was current when the retention began, so expiry keeps it. Tagged versions are
    counted, although expiry keeps them: they are few.
    """
    oldest_ms = ports.now_ms() - retention_days(table) * _DAY_MS
    oldest = await ports.ledger.versions(table.id, MAIN, limit=_MAX_COUNTED)
    return max(sum(each.at_ms < oldest_ms for each in oldest) - 1, 0)
