"""The audit of recipients."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from moorage.api.console.api import Paging, console
from moorage.api.console.bodies import Whole
from moorage.core.accesses import AccessLine
from moorage.core.errors import InvalidInput, SecurableNotFound
from moorage.http import Answer, Call, Example, NoBody
from moorage.usecases.catalog.paging import page_size
from moorage.usecases.ports import Ports
from moorage.usecases.sharing import accesses


class AccessPaging(Paging, frozen=True, kw_only=True):
    """From when on to list accesses. A page may have more lines than `max_results`, which counts stored batches."""

    since_ms: Annotated[int, Meta(ge=0, le=2**43, description="Milliseconds since 1970.")] = 0


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """Equal requests of a recipient within about half a second, and what they read."""

    operation: str
    share: str | None
    table: Annotated[str | None, Meta(description="As the recipient sees it: schema.table.")]
    table_id: str | None
    version: Whole | None
    address: Annotated[str, Meta(description="The IP address that the requests came from.")]
    refusal: Annotated[str | None, Meta(description="Why the requests were refused; null if they were answered.")]
    requests: Whole
    files: Whole
    bytes: Annotated[Whole, Meta(description="The size of the files that a query listed, or the bytes of a file sent.")]
    first_at_ms: Whole
    last_at_ms: Whole


class AccessList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of accesses, the oldest first. Without a token it is the last page."""

    items: tuple[Access, ...]
    next_page_token: str | None


@console.get(
    "/recipients/{recipient}/accesses",
    operation="listAccesses",
    summary="List what a recipient read.",
    stage="public_preview",
    tags=("recipients",),
    query=AccessPaging,
    answer=AccessList,
    errors=(InvalidInput, SecurableNotFound),
    example=Example(
        path={"recipient": "partner"},
        query={"since_ms": 1794737732000},
        answer={
            "items": [
                {
                    "operation": "query",
                    "share": "quarterly",
                    "table": "sales.orders",
                    "table_id": "01939c1e-5a6f-7cc1-9d3e-8f5a2b7c4d20",
                    "version": 7,
                    "address": "192.0.2.7",
                    "refusal": None,
                    "requests": 1,
                    "files": 3,
                    "bytes": 4096,
                    "first_at_ms": 1794737732278,
                    "last_at_ms": 1794737732278,
                }
            ],
            "next_page_token": None,
        },
    ),
)
async def list_accesses(call: Call[NoBody, AccessPaging], ports: Ports) -> Answer:
    """List what a recipient read, with files and bytes, and when it was refused. Stored about every half second."""
    query = call.query
    page = await accesses.page_accesses(
        ports,
        call.caller,
        call.params["recipient"],
        since_ms=query.since_ms,
        token=query.page_token,
        limit=page_size(query.max_results),
    )
    return Answer.json(AccessList(items=tuple(map(_to_wire, page.lines)), next_page_token=page.next_token))


def _to_wire(line: AccessLine) -> Access:
    access, tally = line.access, line.tally
    return Access(
        operation=access.operation,
        share=access.share,
        table=access.table,
        table_id=access.table_id,
        version=access.version,
        address=access.address,
        refusal=access.refusal,
        requests=tally.requests,
        files=tally.files,
        bytes=tally.bytes,
        first_at_ms=tally.first_at_ms,
        last_at_ms=tally.last_at_ms,
    )
