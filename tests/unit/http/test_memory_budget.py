"""Large bodies wait for their share of the memory budget; small ones do not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from moorage.core.entries import MAX_DRAFT_BYTES
from moorage.http import Answer, App, Call, Example, Headers, Limits
from moorage.http.app import Observe
from moorage.http.exchanges import Exchange
from moorage.http.memory_budget import Room
from tests.in_process import client_of
from tests.unit.http.harbour import api_that, app_of

MB = 1024 * 1024


class Scales:
    """A handler that holds large bodies until `open` is set. `busy` is set while it handles `busy_at` requests."""

    def __init__(self, busy_at: int = 1) -> None:
        self.open, self.busy = asyncio.Event(), asyncio.Event()
        self.in_progress = self.most = 0
        self._busy_at = busy_at

    async def weigh(self, call: Call[Any, Any]) -> Answer:
        self.in_progress += 1
        self.most = max(self.most, self.in_progress)
        if self.in_progress == self._busy_at:
            self.busy.set()
        if len(call.raw_body) > MB:
            await self.open.wait()
        self.in_progress -= 1
        return Answer.json(len(call.raw_body))

    def app(self, *, observe: Observe | None = None, **limits: Any) -> App:
        takes: dict[str, Any] = {"body": bytes, "takes": "application/vnd.cargo", "example": Example(body="AAE=")}
        return app_of(api_that(self.weigh, verb="post", **takes), limits=Limits(**limits), observe=observe)


def post(client: httpx.AsyncClient, content: Any) -> asyncio.Task[httpx.Response]:
    return asyncio.create_task(client.post("/harbour/ships", content=content))


async def chunked(size: int) -> AsyncIterator[bytes]:
    for _ in range(size // MB):
        yield bytes(MB)


async def test_large_bodies_wait_for_memory_and_small_ones_do_not() -> None:
    scales = Scales(busy_at=3)
    async with asyncio.timeout(60), client_of(scales.app(memory_bytes=6 * MB, body_bytes=2 * MB)) as client:
        large = [post(client, bytes(2 * MB)) for _ in range(5)] + [post(client, chunked(2 * MB)) for _ in range(3)]
        await scales.busy.wait()
        assert (await post(client, b"small")).json() == 5
        assert scales.in_progress == 3
        scales.open.set()
        assert [(await each).json() for each in large] == [2 * MB] * 8
    assert scales.most == 4, "three large ones and the small one"


async def test_a_body_that_waits_too_long_for_memory_is_refused_with_retry_after() -> None:
    scales = Scales()
    async with asyncio.timeout(60), client_of(scales.app(memory_bytes=2 * MB, read_seconds=3)) as client:
        first = post(client, bytes(2 * MB))
        await scales.busy.wait()
        refused = await post(client, bytes(2 * MB))
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        scales.open.set()
        assert (await first).status_code == 200
        assert (await post(client, bytes(2 * MB))).status_code == 200, "the memory is free again"


async def test_a_body_larger_than_the_budget_is_handled_alone() -> None:
    scales = Scales()
    scales.open.set()
    async with asyncio.timeout(60), client_of(scales.app(memory_bytes=MB, body_bytes=4 * MB)) as client:
        answers = await asyncio.gather(*(post(client, bytes(3 * MB)) for _ in range(3)))
        assert [answer.json() for answer in answers] == [3 * MB] * 3
    assert scales.most == 1


async def test_json_too_large_for_a_draft_is_refused_before_it_is_read() -> None:
    async def never(call: Call[Any, Any]) -> Answer:
        raise AssertionError

    async with asyncio.timeout(60), client_of(app_of(api_that(never, verb="post"))) as client:
        assert (await post(client, bytes(MAX_DRAFT_BYTES + 1))).status_code == 413


async def test_a_large_body_is_not_also_kept_in_chunks() -> None:
    seen: list[Exchange] = []
    scales = Scales()
    scales.open.set()
    async with asyncio.timeout(60), client_of(scales.app(observe=seen.append)) as client:
        assert (await post(client, bytes(8 * MB))).json() == 8 * MB
    assert not seen[0].chunks


class SmallChunks:
    """A client that sends its body in very small pieces."""

    exchange: Exchange
    answer: Answer | None = None
    address = ""
    most = left = 100

    async def more(self) -> None:
        self.most = max(self.most, len(self.exchange.chunks))
        self.exchange.chunks.extend([b"hi"] * 1_000)
        self.left -= 1
        self.exchange.arrived = not self.left

    def send(self, answer: Answer) -> None:
        self.answer = answer

    async def send_chunk(self, chunk: bytes) -> None:
        raise AssertionError

    def abort(self) -> None:
        raise AssertionError("no stream")

    def end_stream(self) -> None:
        raise AssertionError


async def test_small_chunks_are_joined_before_more_are_read() -> None:
    client = SmallChunks()
    client.exchange = Exchange("POST", b"/harbour/ships", b"", Headers({}), client)
    await Scales().app().serve(client.exchange)
    assert client.answer is not None
    assert client.answer.body == b"200000"
    assert client.most == 100, "the chunks of one read are joined before the next read"


@pytest.mark.parametrize("cancelled", [0, 1])
async def test_a_cancelled_waiter_does_not_block_the_others(cancelled: int) -> None:
    room = Room(10)
    held = await room.take(6)
    waiters = [asyncio.create_task(room.take(size)) for size in (10, 4)]
    await asyncio.sleep(0)
    assert room.waiting == 2
    waiters[cancelled].cancel()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert waiters[1].done(), "either it was cancelled, or it fits now that the one before it was cancelled"
    room.give_back(held)
    room.give_back(await waiters[1 - cancelled])
    assert room.waiting == 0
    assert await asyncio.wait_for(room.take(10), 10) == 10


async def test_memory_released_after_a_waiter_was_cancelled_is_given_to_the_next() -> None:
    room = Room(10)
    held = await room.take(10)
    cancelled, second = (asyncio.create_task(room.take(10)) for _ in range(2))
    await asyncio.sleep(0)
    cancelled.cancel()
    room.give_back(held)
    assert await asyncio.wait_for(second, 10) == 10
    assert room.waiting == 0


async def test_a_waiter_cancelled_after_it_was_given_memory_passes_it_to_the_next() -> None:
    room = Room(10)
    held = await room.take(10)
    first, second = (asyncio.create_task(room.take(10)) for _ in range(2))
    await asyncio.sleep(0)
    room.give_back(held)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert await asyncio.wait_for(second, 10) == 10
