"""Large bodies share a room: they stand in line for it, and nobody else does."""

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
    """A handler that keeps large bodies until it is told to let them go. So many at once make it busy."""

    def __init__(self, busy_at: int = 1) -> None:
        self.open, self.busy = asyncio.Event(), asyncio.Event()
        self.at_once = self.most = 0
        self._busy_at = busy_at

    async def weigh(self, call: Call[Any, Any]) -> Answer:
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        if self.at_once == self._busy_at:
            self.busy.set()
        if len(call.raw_body) > MB:
            await self.open.wait()
        self.at_once -= 1
        return Answer.json(len(call.raw_body))

    def app(self, *, observe: Observe | None = None, **limits: Any) -> App:
        takes: dict[str, Any] = {"body": bytes, "takes": "application/vnd.cargo", "example": Example(body="AAE=")}
        return app_of(api_that(self.weigh, verb="post", **takes), limits=Limits(**limits), observe=observe)


def post(client: httpx.AsyncClient, content: Any) -> asyncio.Task[httpx.Response]:
    return asyncio.create_task(client.post("/harbour/ships", content=content))


async def chunked(size: int) -> AsyncIterator[bytes]:
    for _ in range(size // MB):
        yield bytes(MB)


async def test_large_bodies_wait_for_each_other_and_small_ones_for_nobody() -> None:
    scales = Scales(busy_at=3)
    async with asyncio.timeout(60), client_of(scales.app(memory_bytes=6 * MB, body_bytes=2 * MB)) as client:
        large = [post(client, bytes(2 * MB)) for _ in range(5)] + [post(client, chunked(2 * MB)) for _ in range(3)]
        await scales.busy.wait()
        assert (await post(client, b"small")).json() == 5
        assert scales.at_once == 3
        scales.open.set()
        assert [(await each).json() for each in large] == [2 * MB] * 8
    assert scales.most == 4, "three large ones and the small one"


async def test_whoever_waits_in_vain_is_asked_to_come_back() -> None:
    scales = Scales()
    async with asyncio.timeout(60), client_of(scales.app(memory_bytes=2 * MB, read_seconds=3)) as client:
        first = post(client, bytes(2 * MB))
        await scales.busy.wait()
        refused = await post(client, bytes(2 * MB))
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        scales.open.set()
        assert (await first).status_code == 200
        assert (await post(client, bytes(2 * MB))).status_code == 200, "there is room again"


async def test_a_body_larger_than_the_room_has_it_for_itself() -> None:
    scales = Scales()
    scales.open.set()
    async with asyncio.timeout(60), client_of(scales.app(memory_bytes=MB, body_bytes=4 * MB)) as client:
        answers = await asyncio.gather(*(post(client, bytes(3 * MB)) for _ in range(3)))
        assert [answer.json() for answer in answers] == [3 * MB] * 3
    assert scales.most == 1


async def test_json_that_no_draft_could_hold_is_refused_before_it_is_read() -> None:
    async def never(call: Call[Any, Any]) -> Answer:
        raise AssertionError

    async with asyncio.timeout(60), client_of(app_of(api_that(never, verb="post"))) as client:
        assert (await post(client, bytes(MAX_DRAFT_BYTES + 1))).status_code == 413


async def test_a_large_body_is_not_kept_a_second_time_in_pieces() -> None:
    seen: list[Exchange] = []
    scales = Scales()
    scales.open.set()
    async with asyncio.timeout(60), client_of(scales.app(observe=seen.append)) as client:
        assert (await post(client, bytes(8 * MB))).json() == 8 * MB
    assert not seen[0].chunks


class Crumbs:
    """A client that sends its body in very small pieces."""

    exchange: Exchange
    answer: Answer | None = None
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

    def end_stream(self) -> None:
        raise AssertionError


async def test_a_body_in_crumbs_takes_no_more_room_than_a_loaf() -> None:
    client = Crumbs()
    client.exchange = Exchange("POST", b"/harbour/ships", b"", Headers({}), client)
    await Scales().app().serve(client.exchange)
    assert client.answer is not None
    assert client.answer.body == b"200000"
    assert client.most == 100, "no piece lies there for itself any longer when the next ones are asked for"


@pytest.mark.parametrize("gone", [0, 1])
async def test_who_leaves_the_line_lets_the_others_go_on(gone: int) -> None:
    room = Room(10)
    held = await room.take(6)
    line = [asyncio.create_task(room.take(size)) for size in (10, 4)]
    await asyncio.sleep(0)
    assert room.waiting == 2
    line[gone].cancel()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert line[1].done(), "either it left, or there is room for it now that the one before it did"
    room.give_back(held)
    room.give_back(await line[1 - gone])
    assert room.waiting == 0
    assert await asyncio.wait_for(room.take(10), 10) == 10


async def test_room_that_comes_free_for_one_who_was_just_ended_goes_to_the_next() -> None:
    room = Room(10)
    held = await room.take(10)
    ended, second = (asyncio.create_task(room.take(10)) for _ in range(2))
    await asyncio.sleep(0)
    ended.cancel()
    room.give_back(held)
    assert await asyncio.wait_for(second, 10) == 10
    assert room.waiting == 0


async def test_who_is_ended_at_its_turn_gives_it_to_the_next() -> None:
    room = Room(10)
    held = await room.take(10)
    first, second = (asyncio.create_task(room.take(10)) for _ in range(2))
    await asyncio.sleep(0)
    room.give_back(held)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert await asyncio.wait_for(second, 10) == 10
