"""The feed: resumed at any entry, long-polled, streamed."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from moorage.testing.builders import START_MS
from moorage.testing.raw_http import RawConnection
from moorage.testing.server import ServerProcess
from tests.api.house import V1, Console, House, done, refused

LONGEST_WAIT = 25
"""The longest wait of the feed in seconds. An earlier answer means that a new entry ended the wait."""


async def test_an_entry_contains_its_caller_its_api_and_its_changes(console: Console) -> None:
    answer = await console.post("/catalogs", {"name": "Lake", "comment": "c", "properties": {"a": "b"}}, caller="ann")
    made = done(answer, 201)
    page = done(await console.get("/feed", after=1))
    assert page == {
        "entries": [
            {
                "seq": 2,
                "at_ms": START_MS,
                "access_seq": 0,
                "draft": page["entries"][0]["draft"],
                "caller": "ann",
                "api": "console",
                "request": answer.headers["x-request-id"],
                "story": {
                    "changes": [
                        {
                            "type": "create",
                            "id": made["id"],
                            "kind": "catalog",
                            "parent": done(await console.get("/health"))["metastore_id"],
                            "name": "Lake",
                            "owner": "ann",
                            "doc": {"comment": "c", "properties": {"a": "b"}},
                        }
                    ]
                },
            }
        ],
        "last_seq": 2,
    }


async def test_the_feed_is_resumed_at_any_point_without_gaps(console: Console) -> None:
    for n in range(10):
        await console.make(f"c{n}")
    for after in range(12):
        for limit in (1, 3, 1000):
            page = done(await console.get("/feed", after=after, limit=limit))
            expected = list(range(after + 1, min(after + limit, 11) + 1))
            assert [entry["seq"] for entry in page["entries"]] == expected
            assert page["last_seq"] == (expected[-1] if expected else after)


async def test_a_page_of_large_entries_has_fewer_of_them(console: Console) -> None:
    for n in range(20):
        await console.make(f"c{n}", comment="m" * 100_000)
    received: list[int] = []
    while found := done(await console.get("/feed", after=max(received, default=0), limit=1000))["entries"]:
        assert len(found) <= 12
        received += [entry["seq"] for entry in found]
    assert received == list(range(1, 22))


async def test_a_refused_request_leaves_no_entry(console: Console) -> None:
    await console.make("lake")
    seq = await console.seq()
    refused(await console.post("/catalogs", {"name": "lake"}, key="k"), 409, "NAME_TAKEN", "name")
    refused(await console.delete("/catalogs/nowhere", key="k2"), 404, "CATALOG_NOT_FOUND")
    assert await console.seq() == seq


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"after": "-1"}, "after"),
        ({"after": "x"}, "after"),
        ({"after": "1.5"}, "after"),
        ({"after": str(2**63)}, "after"),
        ({"limit": "0"}, "limit"),
        ({"limit": "1001"}, "limit"),
        ({"wait_seconds": "26"}, "wait_seconds"),
        ({"wait_seconds": "-1"}, "wait_seconds"),
        ({"wait_seconds": "nan"}, "wait_seconds"),
        ({"wait_seconds": "inf"}, "wait_seconds"),
    ],
)
async def test_an_invalid_query_parameter_of_the_feed_is_named(
    console: Console, query: dict[str, str], field: str
) -> None:
    refused(await console.get("/feed", **query), 400, "INVALID_INPUT", field)


@pytest.mark.parametrize("path", ["/feed", "/feed/stream"])
async def test_reading_after_an_entry_that_the_ledger_does_not_have_is_refused(console: Console, path: str) -> None:
    await console.make("lake")
    answer = await console.get(path, after=3)
    assert "the ledger ends at entry 2" in refused(answer, 400, "INVALID_INPUT", "after")["message"]
    assert done(await console.get("/feed", after=2)) == {"entries": [], "last_seq": 2}


async def test_a_long_poll_returns_with_the_next_entry(house: House) -> None:
    seq = await house.console.seq()
    polls = [asyncio.create_task(house.console.get("/feed", after=seq, wait_seconds=LONGEST_WAIT)) for _ in range(20)]
    await asyncio.sleep(0.05)
    assert not any(poll.done() for poll in polls)
    began = time.monotonic()
    await house.console.make("lake")
    pages = [done(await poll) for poll in polls]
    assert time.monotonic() - began < LONGEST_WAIT
    assert {page["last_seq"] for page in pages} == {seq + 1}
    assert {page["entries"][0]["story"]["changes"][0]["name"] for page in pages} == {"lake"}


async def test_a_long_poll_ends_empty_when_nothing_happens(console: Console) -> None:
    seq = await console.seq()
    began = time.monotonic()
    page = done(await console.get("/feed", after=seq, wait_seconds=0.2))
    assert page == {"entries": [], "last_seq": seq}
    assert time.monotonic() - began >= 0.2


async def test_a_long_poll_behind_the_last_entry_does_not_wait(console: Console) -> None:
    await console.make("lake")
    began = time.monotonic()
    assert len(done(await console.get("/feed", after=0, wait_seconds=LONGEST_WAIT))["entries"]) == 2
    assert time.monotonic() - began < LONGEST_WAIT


# --- server-sent events, from a real server, because a stream never ends -----------------------


class Events:
    def __init__(self, lines: AsyncIterator[str]) -> None:
        self._lines = lines

    async def next(self) -> tuple[int, dict[str, Any]]:
        """The next event's id and data; comments only keep the connection alive."""
        id = None
        async with asyncio.timeout(20):
            async for line in self._lines:
                if line.startswith("id: "):
                    id = int(line[4:])
                elif line.startswith("data: "):
                    assert id is not None
                    return id, json.loads(line[6:])
        raise AssertionError("the stream ended")


@asynccontextmanager
async def listening(console: Console, *, resume: int | None = None, **query: Any) -> AsyncIterator[Events]:
    headers = {} if resume is None else {"last-event-id": str(resume)}
    async with console.http.stream("GET", f"{V1}/feed/stream", params=query, headers=headers) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "text/event-stream"
        yield Events(answer.aiter_lines())


async def test_a_stream_sends_the_past_entries_and_then_the_new_ones(remote: Console) -> None:
    await remote.make("a")
    async with listening(remote) as events, listening(remote, after=2) as late:
        assert [(await events.next())[0] for _ in range(2)] == [1, 2]
        await remote.make("b")
        seq, entry = await events.next()
        assert (seq, entry["seq"], entry["story"]["changes"][0]["name"]) == (3, 3, "b")
        assert await late.next() == (seq, entry)
        assert done(await remote.get("/feed", after=2))["entries"] == [entry]


async def test_a_broken_stream_resumes_after_the_last_event_received(remote: Console) -> None:
    for name in "abcde":
        await remote.make(name)
    async with listening(remote) as events:
        received = [(await events.next())[0] for _ in range(3)]
    async with listening(remote, resume=received[-1], after=0) as events:
        received += [(await events.next())[0] for _ in range(3)]
    assert received == [1, 2, 3, 4, 5, 6]


async def test_a_stream_sends_large_entries_in_small_chunks(remote: Console, server: ServerProcess) -> None:
    for n in range(20):
        await remote.make(f"c{n}", comment="m" * 100_000)
    with RawConnection(server.port) as listener:
        listener.send(b"GET %b/feed/stream HTTP/1.1\r\nhost: x\r\n\r\n" % V1.encode())
        assert listener.head().status == 200
        received = 0
        while received < 21:
            chunk = listener.chunk()
            assert len(chunk) < 200_000
            received += chunk.count(b"id: ")


@pytest.mark.parametrize("resume", ["x", "-1", "1.5", "", "9" * 17, "²"])
async def test_an_invalid_last_event_id_is_refused(house: House, resume: str) -> None:
    answer = await house.console.http.get(f"{V1}/feed/stream", headers={b"last-event-id": resume.encode()})
    refused(answer, 400, "INVALID_INPUT", "Last-Event-ID")


async def test_a_stream_ends_when_the_server_stops(remote: Console, server: Any) -> None:
    async with listening(remote) as events:
        await events.next()
        assert await asyncio.to_thread(server.stop) == 0
        with pytest.raises((AssertionError, httpx.HTTPError)):
            await events.next()
