"""Reports of clients on commits and scans: one per kind, table and version."""

from __future__ import annotations

import msgspec

from moorage.core.callers import Caller
from moorage.core.privileges import Privilege
from moorage.core.reports import ReportKind
from moorage.ledger.port import Report
from moorage.usecases.catalog.addresses import Address, reach
from moorage.usecases.catalog.paging import seal, unseal
from moorage.usecases.ports import Ports


class ReportPage(msgspec.Struct, frozen=True):
    """A page of the reports on a table, in the order of versions. `next_token` is None on the last page."""

    items: tuple[Report, ...]
    next_token: str | None


async def page(
    ports: Ports, caller: Caller, address: Address, *, kind: ReportKind, token: str | None, limit: int
) -> ReportPage:
    """The next page of reports of a kind on a table."""
    chain = await reach(ports, caller, address, Privilege.READ)
    scope = f"{caller.id}/{chain[-1].id}/reports/{kind}"
    after = unseal(ports.page_secret, scope, token)
    found = await ports.ledger.reports(chain[-1].id, kind=kind, after=int(after) if after else -1, limit=limit + 1)
    more = len(found) > limit
    last = str(found[limit - 1].version) if more else ""
    return ReportPage(found[:limit], seal(ports.page_secret, scope, last) if more else None)
