"""Reports on commits and scans: kept once per table and version, for whoever looks after the table."""

from __future__ import annotations

import msgspec

from moorage.access.port import require
from moorage.core.callers import Caller
from moorage.core.privileges import Privilege
from moorage.core.reports import ReportKind
from moorage.formats.delta.metrics import CommitReport, require_report
from moorage.ledger.port import Report
from moorage.usecases.catalog.addresses import Address, find
from moorage.usecases.catalog.paging import seal, unseal
from moorage.usecases.delta.lookup import find_managed, head_of
from moorage.usecases.ports import Ports

_encode = msgspec.json.Encoder().encode


class ReportPage(msgspec.Struct, frozen=True):
    """Some of the reports on a table, in the order of versions; `next_token` is None at the end."""

    items: tuple[Report, ...]
    next_token: str | None


async def report(
    ports: Ports, caller: Caller, table_id: str | None, table_uri: str | None, report: CommitReport | None
) -> None:
    """Keep what a client says of its commit. The first report on a version counts, as its commit did."""
    table = await find_managed(ports, caller, table_id, table_uri, Privilege.READ)
    if report is None:
        return
    version = require_report(report, latest=head_of(table).version)
    await ports.ledger.keep_report(table.id, version, _encode(report))


async def page(
    ports: Ports, caller: Caller, address: Address, *, kind: ReportKind, token: str | None, limit: int
) -> ReportPage:
    """The next reports of a kind on a table."""
    chain = await find(ports.ledger, address)
    require(ports.access, caller, Privilege.READ, chain)
    scope = f"{caller.id}/{chain[-1].id}/reports/{kind}"
    after = unseal(ports.page_secret, scope, token)
    found = await ports.ledger.reports(chain[-1].id, kind=kind, after=int(after) if after else -1, limit=limit + 1)
    more = len(found) > limit
    last = str(found[limit - 1].version) if more else ""
    return ReportPage(found[:limit], seal(ports.page_secret, scope, last) if more else None)
