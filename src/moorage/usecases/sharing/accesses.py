"""The audit of recipients: which table each of them read, when, from where, and how much of it.

They are lines of the audit (`usecases/identity/audit.py`), stored as reports on their recipient. While the database is
unreachable they are kept, up to a limit; then requests are refused, because an access that cannot be recorded must not
happen.
"""

from __future__ import annotations

import msgspec

from moorage.core.accesses import Access, AccessLine, Tally, add, decode_lines
from moorage.core.callers import Caller
from moorage.core.ids import SecurableId
from moorage.core.privileges import Privilege
from moorage.core.recipients import Recipient
from moorage.core.reports import ReportKind
from moorage.usecases.catalog.addresses import reach, recipient
from moorage.usecases.catalog.paging import seal, unseal
from moorage.usecases.identity.audit import first_number
from moorage.usecases.ports import Ports
from moorage.usecases.sharing.shared_tables import SharedTable


class AccessPage(msgspec.Struct, frozen=True):
    """Lines of the audit, the oldest first. `next_token` is None on the last page."""

    lines: tuple[AccessLine, ...]
    next_token: str | None


def record_access(
    ports: Ports,
    by: Recipient,
    operation: str,
    shared: SharedTable | None = None,
    *,
    share: str | None = None,
    version: int | None = None,
    files: int = 0,
    size: int = 0,
) -> None:
    """Record a request of a recipient: how many files it read, and their size in bytes."""
    access = Access(
        recipient=SecurableId(by.id),
        operation=operation,
        share=share if shared is None else shared.share,
        table=None if shared is None else f"{shared.schema}.{shared.name}",
        table_id=None if shared is None else shared.table.id,
        version=version,
        address=by.address,
    )
    add(ports.local.accesses, access, _tally(ports, files, size))


async def page_accesses(
    ports: Ports, caller: Caller, name: str, *, since_ms: int, token: str | None, limit: int
) -> AccessPage:
    """What a recipient read since a moment. A page has the lines of at most `limit` reports."""
    found = (await reach(ports, caller, recipient(name), Privilege.INSPECT))[-1]
    scope = f"{caller.id}/{found.id}/accesses"
    text = unseal(ports.page_secret, scope, token)
    after = int(text) if text else first_number(since_ms) - 1
    reports = await ports.ledger.reports(found.id, kind=ReportKind.ACCESS, after=after, limit=limit + 1)
    more = len(reports) > limit
    lines = tuple(line for report in reports[:limit] for line in decode_lines(report.body))
    return AccessPage(lines, seal(ports.page_secret, scope, str(reports[limit - 1].version)) if more else None)


def _tally(ports: Ports, files: int, size: int) -> Tally:
    now = ports.now_ms()
    return Tally(requests=1, files=files, bytes=size, first_at_ms=now, last_at_ms=now)
