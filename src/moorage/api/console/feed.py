"""The feed of all changes: polled, long-polled or streamed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from moorage.api.console.api import console
from moorage.api.console.bodies import Whole
from moorage.core.callers import Caller
from moorage.core.errors import InvalidInput, Unauthenticated
from moorage.http import Answer, Call, Example, NoBody
from moorage.usecases.catalog import feed
from moorage.usecases.ports import Ports

routes = console.section(tags=("feed",))

_HEARTBEAT_S = 15.0
_FIRST_BATCH = 8
_PAGE_BYTES = 1024 * 1024
_CHUNK_BYTES = 64 * 1024
"""Limits of a response and of a chunk of the stream: they stay in memory until the client has read them."""
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
    """One entry of the ledger. `story` contains its changes, each with a `type`, and the jobs that it created."""

    seq: Whole
    at_ms: Whole
    access_seq: Whole
    draft: str
    caller: str
    api: str
    request: str
    story: dict[str, Any]


class FeedPage(msgspec.Struct, frozen=True, kw_only=True):
    """Entries in order. The next page begins after `last_seq`."""

    entries: tuple[FeedEntry, ...]
    last_seq: Whole


class FeedQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which entries to return, and how long to wait for new ones."""

    after: Annotated[Whole, Meta(description="The last sequence number already read; 0 for the beginning.")] = 0
    limit: Annotated[
        int, Meta(ge=1, le=1000, description="The most entries to return. A page of large entries has fewer.")
    ] = 100
    wait_seconds: Annotated[float, Meta(ge=0, le=25, description="How long to wait for a new entry.")] = 0.0


class StreamQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Where to begin. A `Last-Event-ID` header, which browsers send when they reconnect, takes precedence."""

    after: Annotated[Whole, Meta(description="The last sequence number already read.")] = 0


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
    """Read all changes after a sequence number, in order and without gaps. Optionally wait for the next one."""
    query = call.query
    found = await _read(ports, call.caller, query.after, query.limit, full=_PAGE_BYTES, wait_s=query.wait_seconds)
    body = b'{"entries":[%b],"last_seq":%d}' % (b",".join(found.values()), max(found, default=query.after))
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
    """Stream the entries as server-sent events, each with its sequence number as `id`, until the client disconnects."""
    resumed = call.header("last-event-id")
    if resumed is not None and not (resumed.isascii() and resumed.isdigit() and len(resumed) < 17):
        raise InvalidInput("Last-Event-ID is not a sequence number", field="Last-Event-ID")
    after = int(resumed) if resumed else call.query.after
    first = await _read(ports, call.caller, after, full=_CHUNK_BYTES)
    return Answer.stream(_events(ports, call, first, after), "text/event-stream", endless=True)


async def _events(ports: Ports, call: Call[Any, Any], found: dict[int, bytes], after: int) -> AsyncIterator[bytes]:
    yield b": the feed\n\n"
    while True:
        after = max(found, default=after)
        yield b"".join(b"id: %d\ndata: %b\n\n" % event for event in found.items()) or b": still here\n\n"
        try:
            found = await _follow(ports, call, after)
        except Unauthenticated:  # the token was revoked or has expired: the client learns it when it reconnects
            return


async def _follow(ports: Ports, call: Call[Any, Any], after: int) -> dict[int, bytes]:
    """The next entries, for the caller as it is now: a stream may outlive its token, and its caller's groups."""
    caller = call.caller
    if await ports.ledger.wait_for_entry_after(after, _HEARTBEAT_S) and call.authenticate is not None:
        caller = await call.authenticate()
    return await _read(ports, caller, after, full=_CHUNK_BYTES)


async def _read(
    ports: Ports, caller: Caller, after: int, limit: int = 1000, *, full: int, wait_s: float = 0.0
) -> dict[int, bytes]:
    """The next entries as JSON, by sequence number. The entry that reaches `full` bytes is the last one.

    The size of an entry is unknown before it is read, and one may have a thousand changes. So the batches start small
    and double.
    """
    read: dict[int, bytes] = {}
    size, batch = 0, _FIRST_BATCH
    while len(read) < limit:
        batch = min(batch, limit - len(read))
        found = await feed.entries(ports, caller, after, limit=batch, wait_s=0.0 if read else wait_s)
        for entry in found:
            after = entry.seq
            read[after] = _encode(entry)
            size += len(read[after])
            if size >= full:
                return read
        if len(found) < batch:
            break
        batch *= 2
    return read


_encode = msgspec.json.Encoder().encode
