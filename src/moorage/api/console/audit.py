"""The audit of principals."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from moorage.api.console.api import Paging, console
from moorage.api.console.bodies import Whole
from moorage.core.accesses import AccessLine, Outcome
from moorage.core.errors import InvalidInput
from moorage.http import Answer, Call, Example, NoBody
from moorage.usecases.catalog.paging import page_size
from moorage.usecases.identity import audit
from moorage.usecases.ports import Ports

_Moment = Annotated[int, Meta(ge=0, le=2**43, description="Milliseconds since 1970.")]


class AuditQuery(Paging, frozen=True, kw_only=True):
    """Which lines to list. Empty values select all. A page may have more lines than `max_results`, or few."""

    since_ms: _Moment = 0
    until_ms: _Moment = 0
    principal: Annotated[str, Meta(description="The name of a principal.")] = ""
    api: Annotated[str, Meta(description="The API: console, unity, control, delta, iceberg, lance or sharing.")] = ""
    operation: Annotated[str, Meta(description="The id of an operation, as in the OpenAPI files.")] = ""
    object: Annotated[str, Meta(description="The full name of an object. Selects also everything in it.")] = ""
    outcome: Annotated[Outcome | None, Meta(description="What became of the requests.")] = None


class AuditLine(msgspec.Struct, frozen=True, kw_only=True):
    """Equal requests of a principal within about a second."""

    principal: Annotated[str | None, Meta(description="The caller; null if it could not be authenticated.")]
    api: str
    operation: str
    object: Annotated[str | None, Meta(description="The kind and full name of the object that was decided about.")]
    address: Annotated[str, Meta(description="The IP address that the requests came from.")]
    outcome: Outcome
    reason: Annotated[str | None, Meta(description="Why the requests were denied or failed; null if allowed.")]
    requests: Whole
    first_at_ms: Whole
    last_at_ms: Whole


class AuditList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of lines, the oldest first. Without a token it is the last page."""

    items: tuple[AuditLine, ...]
    next_page_token: str | None


@console.get(
    "/audit",
    operation="listAudit",
    summary="List what principals did.",
    stage="public_preview",
    tags=("audit",),
    query=AuditQuery,
    answer=AuditList,
    errors=(InvalidInput,),
    example=Example(
        query={"outcome": "denied", "since_ms": 1794737732000},
        answer={
            "items": [
                {
                    "principal": "ann@example.com",
                    "api": "unity",
                    "operation": "getTable",
                    "object": "table lake.sales.orders",
                    "address": "192.0.2.7",
                    "outcome": "denied",
                    "reason": "it needs SELECT on table 'orders'",
                    "requests": 2,
                    "first_at_ms": 1794737732278,
                    "last_at_ms": 1794737732301,
                }
            ],
            "next_page_token": None,
        },
    ),
)
async def list_audit(call: Call[NoBody, AuditQuery], ports: Ports) -> Answer:
    """List who did what through which API, and what was refused and why. Stored about every half second."""
    query = call.query
    wanted = audit.Filter(
        since_ms=query.since_ms,
        until_ms=query.until_ms or None,
        principal=query.principal or None,
        api=query.api or None,
        operation=query.operation or None,
        object=query.object or None,
        outcome=query.outcome,
    )
    page = await audit.page_audit(
        ports, call.caller, wanted, token=query.page_token, limit=page_size(query.max_results)
    )
    return Answer.json(AuditList(items=tuple(map(_to_wire, page.lines)), next_page_token=page.next_token))


def _to_wire(line: AccessLine) -> AuditLine:
    access, tally = line.access, line.tally
    return AuditLine(
        principal=access.principal,
        api=access.api,
        operation=access.operation,
        object=access.object,
        address=access.address,
        outcome=access.outcome,
        reason=access.refusal or access.error,
        requests=tally.requests,
        first_at_ms=tally.first_at_ms,
        last_at_ms=tally.last_at_ms,
    )
