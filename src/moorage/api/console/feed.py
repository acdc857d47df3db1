"""The feed of every change: polled, waited for, or streamed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from moorage.api.console.api import console
from moorage.api.console.bodies import Whole
from moorage.core.callers import Caller
from moorage.core.errors import InvalidInput
from moorage.http import Answer, Call, Example, NoBody
from moorage.usecases.catalog import feed
from moorage.usecases.ports import Ports

routes = console.section(tags=("feed",))

_HEARTBEAT_S = 15.0
_FIRST_LOOK = 8
_FULL_PAGE = 1024 * 1024
_FULL_CHUNK = 64 * 1024
"""What one who asks or listens is told at once, in bytes, is held in memory until it has read it."""
_ENTRY: dict[str, Any] = {
    "seq": 2,
    "at_ms": 1794737732278,
    "access_seq": 0,
    "draft": "01939c1e-5a6f-7cc1-9d3e-8f5a2b7c4d12",
    "caller": "local",
    "api": "console",
    "request": "f2b6c0d1",
    "story": {
        "changes": [
            {
                "type": "drop",
                "id": "01939c1e-5a6f-7cc1-9d3e-8f5a2b7c4d10",
                "hold_ms": 604800000,
            }
        ],
        "jobs": [],
    },
}


class FeedEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of the ledger. Its story holds the changes, each with a `type`, and the jobs it caused."""

    seq: Whole
    at_ms: Whole
    access_seq: Whole
    draft: str
    caller: str
    api: str
    request: str
    story: dict[str, Any]


class FeedPage(msgspec.Struct, frozen=True, kw_only=True):
    """Entries in order; ask again after `last_seq`."""

    entries: tuple[FeedEntry, ...]
    last_seq: Whole


class FeedQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Where to begin."""

    after: Annotated[Whole, Meta(description="The last sequence number already known; 0 begins at the beginning.")] = 0
    limit: Annotated[
        int, Meta(ge=1, le=1000, description="How many entries at most; there are fewer where they are large.")
    ] = 100
    wait_seconds: Annotated[float, Meta(ge=0, le=25, description="How long to wait if there is nothing new.")] = 0.0


class StreamQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Where to begin; a `Last-Event-ID` header wins, as browsers send it when they reconnect."""

    after: Annotated[Whole, Meta(description="The last sequence number already known.")] = 0


@routes.get(
    "/feed",
    operation="readFeed",
    summary="Read the feed of changes.",
    query=FeedQuery,
    answer=FeedPage,
    errors=(InvalidInput,),
    patient=True,
    example=Example(query={"after": 1}, answer={"entries": [_ENTRY], "last_seq": 2}),
)
async def read_feed(call: Call[NoBody, FeedQuery], ports: Ports) -> Answer:
    """Every change after a sequence number, in order and without gaps; optionally wait for the next one."""
    query = call.query
    told = await _tell(ports, call.caller, query.after, query.limit, full=_FULL_PAGE, wait_s=query.wait_seconds)
    body = b'{"entries":[%b],"last_seq":%d}' % (b",".join(told.values()), max(told, default=query.after))
    return Answer(200, body, ((b"content-type", b"application/json"),))


@routes.get(
    "/feed/stream",
    operation="streamFeed",
    summary="Stream the feed of changes.",
    query=StreamQuery,
    content_types=("text/event-stream",),
    errors=(InvalidInput,),
    patient=True,
    example=Example(query={"after": 1}, answer="id: 2\ndata: {}\n\n"),
)
async def stream_feed(call: Call[NoBody, StreamQuery], ports: Ports) -> Answer:
    """The same entries as server-sent events, each with its sequence number as `id`, for as long as one listens."""
    resumed = call.header("last-event-id")
    if resumed is not None and not (resumed.isascii() and resumed.isdigit() and len(resumed) < 17):
        raise InvalidInput("Last-Event-ID is not a sequence number", field="Last-Event-ID")
    after = int(resumed) if resumed else call.query.after
    first = await _tell(ports, call.caller, after, full=_FULL_CHUNK)
    return Answer.stream(_events(ports, call.caller, first, after), "text/event-stream")


async def _events(ports: Ports, caller: Caller, told: dict[int, bytes], after: int) -> AsyncIterator[bytes]:
    yield b": the feed\n\n"
    while True:
        after = max(told, default=after)
        yield b"".join(b"id: %d\ndata: %b\n\n" % event for event in told.items()) or b": still here\n\n"
        told = await _tell(ports, caller, after, full=_FULL_CHUNK, wait_s=_HEARTBEAT_S)


async def _tell(
    ports: Ports, caller: Caller, after: int, limit: int = 1000, *, full: int, wait_s: float = 0.0
) -> dict[int, bytes]:
    """The entries behind one as JSON, by their numbers: as many as fill a page, or the next one if it alone does.

    Nobody knows how large they are, one may have a thousand changes: so a few are looked at, and then twice as many.
    """
    told: dict[int, bytes] = {}
    size, look = 0, _FIRST_LOOK
    while len(told) < limit:
        look = min(look, limit - len(told))
        found = await feed.entries(ports, caller, after, limit=look, wait_s=0.0 if told else wait_s)
        for entry in found:
            after = entry.seq
            told[after] = _encode(entry)
            size += len(told[after])
            if size >= full:
                return told
        if len(found) < look:
            break
        look *= 2
    return told


_encode = msgspec.json.Encoder().encode
