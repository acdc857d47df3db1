"""The audit: who did what through which API, whether it was allowed, and why not.

Equal requests are counted together in memory and stored about twice a second, so a request costs no write of its own. A
server that is killed loses the lines of its last half second; the changes themselves are in the feed. The lines of
principals are reports on the metastore, those of recipients reports on the recipient. Both are kept for `audit_ms`.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from typing import Final

import msgspec

from moorage.access.decisions import Decision, decisions
from moorage.access.port import require
from moorage.core.accesses import (
    MAX_PENDING,
    Access,
    AccessLine,
    Outcome,
    Tally,
    add,
    by_subject,
    decode_lines,
    encode_lines,
)
from moorage.core.callers import Caller
from moorage.core.errors import Forbidden, MoorageError, NotFound, TooManyRequests, Unauthenticated
from moorage.core.ids import SecurableId
from moorage.core.names import name_key
from moorage.core.privileges import Privilege
from moorage.core.recipients import Recipient
from moorage.core.reports import ReportKind
from moorage.core.securables import Shelf
from moorage.usecases.catalog.paging import seal, unseal
from moorage.usecases.ports import Ports

_RANDOM_BITS: Final = 10
_MAX_OBJECTS: Final = 20
"""A transaction has one line for each of its objects, up to this number."""
_MAX_REASON: Final = 300
_MAX_DETAILED: Final = MAX_PENDING // 2
"""Above this, lines lose their details and are counted together: a flood of requests must not fill the memory."""
_BATCH: Final = 500
_READ: Final = 50
_MAX_READ: Final = 2_000
"""How many stored batches one request reads at once, and in all."""
_LATE_MS: Final = 60 * 60 * 1000
"""A line may be stored this long after its requests, while the database is not reachable."""


# --- record --------------------------------------------------------------------------------------


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A request that was answered. `caller` is None if it is not known.

    `is_counted`: count it even if it was not refused.
    """

    caller: Caller | None
    api: str
    operation: str
    address: str
    error: MoorageError | None
    status: int
    is_counted: bool


def record_request(ports: Ports, request: Request) -> None:
    """Count a request in the audit."""
    pending, now = ports.local.accesses, ports.now_ms()
    tally = Tally(requests=1, files=0, bytes=0, first_at_ms=now, last_at_ms=now)
    lines = _recipient_lines(request) if isinstance(request.caller, Recipient) else _lines(request)
    for line in lines:
        is_full = line not in pending and len(pending) >= _MAX_DETAILED
        add(pending, _without_details(line) if is_full else line, tally)


def _lines(request: Request) -> Iterator[Access]:
    noted = decisions() if request.caller is not None else ()
    refusal, failure = refusal_of(request.error, noted), None
    if refusal is None and not request.is_counted:
        return
    if refusal is None and request.status >= 400:
        failure = type(request.error).__name__ if request.error is not None else f"status {request.status}"
    for target in _objects(noted):
        yield Access(
            operation=request.operation,
            api=request.api,
            principal=request.caller.id if request.caller is not None else None,
            object=target,
            address=request.address,
            refusal=refusal,
            error=failure,
        )


def _recipient_lines(request: Request) -> Iterator[Access]:
    """What a recipient read is recorded where it is read, with its size. Here are its refused requests."""
    error, recipient = request.error, request.caller
    if recipient is not None and isinstance(error, Forbidden | NotFound | TooManyRequests):
        yield Access(
            operation=request.operation,
            recipient=SecurableId(recipient.id),
            address=request.address,
            refusal=error.message[:_MAX_REASON],
        )


def refusal_of(error: MoorageError | None, noted: Iterable[Decision]) -> str | None:
    """Why a request was refused; None if it was not. A hidden object is refused, although its error is a 404."""
    if isinstance(error, Unauthenticated | Forbidden | TooManyRequests):
        return error.message[:_MAX_REASON]
    if isinstance(error, NotFound):
        return next((refusal for _, refusal in noted if refusal is not None), None)
    return None


def _objects(noted: Sequence[Decision]) -> list[str | None]:
    """The objects that were decided about. Those with a name say more than the metastore."""
    found: dict[str | None, None] = {}
    for chain, _ in noted:
        if chain:
            found[f"{chain[-1].kind} {'.'.join([part.name for part in chain])}"] = None
            if len(found) == _MAX_OBJECTS:
                break
    return list(found) or ["metastore" if noted else None]


def _without_details(line: Access) -> Access:
    refusal = None if line.refusal is None else "refused"
    return Access(
        operation=line.operation, api=line.api, recipient=line.recipient, refusal=refusal, principal=line.principal
    )


# --- store ---------------------------------------------------------------------------------------


async def store_accesses(ports: Ports) -> int:
    """Store what was recorded since the last run. A chore."""
    pending, ports.local.accesses = ports.local.accesses, {}
    lines = by_subject(pending, ports.ledger.root)
    try:
        for subject in list(lines):
            number = _number(ports.now_ms())
            await ports.ledger.store_report(subject, number, encode_lines(lines[subject]), kind=ReportKind.ACCESS)
            del lines[subject]
    finally:
        for rest in lines.values():
            for line in rest:
                add(ports.local.accesses, line.access, line.tally)
    return len(pending)


async def delete_old_accesses(ports: Ports) -> int:
    """Delete the lines of the audit that have been kept long enough. A chore."""
    below, deleted = first_number(max(0, ports.now_ms() - ports.audit_ms)), 0
    async for subject in _subjects(ports):
        count = _BATCH
        while count == _BATCH:
            count = await ports.ledger.delete_reports(subject, kind=ReportKind.ACCESS, below=below, limit=_BATCH)
            deleted += count
    return deleted


async def _subjects(ports: Ports) -> AsyncIterator[SecurableId]:
    yield ports.ledger.root
    after = ""
    while recipients := (await ports.ledger.children(ports.ledger.root, Shelf.RECIPIENT, after=after)).items:
        for recipient in recipients:
            yield recipient.id
        after = name_key(recipients[-1].name)


def first_number(at_ms: int) -> int:
    """The smallest number of a report at this moment."""
    return (at_ms * 1000) << _RANDOM_BITS


def _number(now_ms: int) -> int:
    """The number of a report: ascending by time, and different on servers that store at the same moment."""
    return first_number(now_ms) + secrets.randbelow(1000 << _RANDOM_BITS)


# --- list ----------------------------------------------------------------------------------------


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """Which lines to list. A value that is None selects all."""

    since_ms: int = 0
    until_ms: int | None = None
    principal: str | None = None
    api: str | None = None
    operation: str | None = None
    object: str | None = None
    """A name, which selects the object and everything in it."""
    outcome: Outcome | None = None

    def selects(self, line: AccessLine) -> bool:
        access, tally = line.access, line.tally
        return (
            tally.last_at_ms >= self.since_ms
            and (self.until_ms is None or tally.first_at_ms < self.until_ms)
            and (self.principal is None or _is_named(access.principal, self.principal))
            and (self.api is None or access.api == self.api)
            and (self.operation is None or access.operation == self.operation)
            and (self.object is None or _is_in(access.object, self.object))
            and (self.outcome is None or access.outcome is self.outcome)
        )


def _is_named(principal: str | None, name: str) -> bool:
    return principal is not None and name_key(principal) == name_key(name)


def _is_in(target: str | None, name: str) -> bool:
    full, key = "" if target is None else name_key(target.partition(" ")[2]), name_key(name)
    return full == key or full.startswith(f"{key}.")


class AuditPage(msgspec.Struct, frozen=True):
    """Lines of the audit, the oldest first. `next_token` is None on the last page."""

    lines: tuple[AccessLine, ...]
    next_token: str | None


async def page_audit(ports: Ports, caller: Caller, wanted: Filter, *, token: str | None, limit: int) -> AuditPage:
    """What principals did, for an administrator. A page ends with the stored batch that reaches `limit` lines.

    One request reads a bounded number of batches, so a page may have few lines and still a next one.
    """
    require(ports.access, caller, Privilege.INSPECT, ())
    scope = f"{caller.id}/audit"
    text = unseal(ports.page_secret, scope, token)
    after = int(text) if text else first_number(wanted.since_ms) - 1
    end = None if wanted.until_ms is None else first_number(wanted.until_ms + _LATE_MS)
    lines: list[AccessLine] = []
    for _ in range(_MAX_READ // _READ):
        reports = await ports.ledger.reports(ports.ledger.root, kind=ReportKind.ACCESS, after=after, limit=_READ)
        for report in reports:
            after = report.version
            if end is not None and after >= end:
                return AuditPage(tuple(lines), None)
            lines += filter(wanted.selects, decode_lines(report.body))
            if len(lines) >= limit:
                return AuditPage(tuple(lines), seal(ports.page_secret, scope, str(after)))
        if len(reports) < _READ:
            return AuditPage(tuple(lines), None)
    return AuditPage(tuple(lines), seal(ports.page_secret, scope, str(after)))
