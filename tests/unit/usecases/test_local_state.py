"""Queues, caches and background tasks of one server."""

from __future__ import annotations

import asyncio
import gc

from moorage.usecases.local_state import (
    CacheKind,
    LanceWorkQueue,
    LocalState,
    RetryQueue,
    TableIdQueue,
    TableQueue,
)

WORDS = CacheKind[str, str]("words", limit=10, weigh=len)


def test_queue_keys_of_different_types_are_never_equal() -> None:
    """A catalog named like a format must not share a queue with that format's work."""
    keys = [TableQueue(("a", "b")), LanceWorkQueue(("a", "b")), TableIdQueue("a"), RetryQueue("a")]
    assert len(set(keys)) == len(keys)


async def test_requests_for_one_object_are_served_one_at_a_time_and_in_order() -> None:
    local, served = LocalState(), list[int]()

    async def request(number: int) -> None:
        async with local.queue(TableQueue(("c", "n", "t"))):
            served.append(number)
            await asyncio.sleep(0)
            served.append(number)

    await asyncio.gather(*(request(number) for number in range(5)))
    assert served == [number for number in range(5) for _ in range(2)]


async def test_two_requests_that_need_the_same_queues_in_another_order_do_not_deadlock() -> None:
    local = LocalState()
    a, b = TableQueue(("a",)), TableQueue(("b",))

    async def request(*keys: TableQueue) -> None:
        async with local.queues(keys):
            await asyncio.sleep(0)

    async with asyncio.timeout(5):
        await asyncio.gather(*(request(a, b) if n % 2 else request(b, a, a) for n in range(20)))
    gc.collect()
    assert local.is_idle


async def test_a_cancelled_request_releases_the_queues_it_held() -> None:
    local = LocalState()
    a, b = TableQueue(("a",)), TableQueue(("b",))
    async with local.queue(b):
        waiting = asyncio.create_task(_hold(local, a, b))
        await asyncio.sleep(0)
        assert local.queue(a).locked()
        waiting.cancel()
        await asyncio.wait((waiting,))
        assert not local.queue(a).locked()


async def _hold(local: LocalState, *keys: TableQueue) -> None:
    async with local.queues(keys):
        raise AssertionError("the second queue is held")


def test_the_least_recently_used_values_are_evicted_by_weight() -> None:
    cache = LocalState().cache(WORDS)
    for word in ("aaaa", "bbbb"):
        cache.put(word, word)
    assert cache.get("aaaa") == "aaaa"
    cache.put("cccc", "cccc")
    assert ("aaaa" in cache, "bbbb" in cache, "cccc" in cache) == (True, False, True)
    assert cache.weight == 8


def test_a_value_heavier_than_the_limit_is_not_kept_and_evicts_nothing() -> None:
    cache = LocalState().cache(WORDS)
    cache.put("a", "a")
    cache.put("long", "x" * 11)
    assert ("a" in cache, "long" in cache, cache.weight) == (True, False, 1)


def test_a_replaced_value_is_weighed_once() -> None:
    cache = LocalState().cache(WORDS)
    cache.put("a", "xxx")
    cache.put("a", "x")
    assert (cache.get("a"), cache.weight, len(cache)) == ("x", 1, 1)


def test_evicted_values_are_disposed_of_and_popped_ones_are_not() -> None:
    evicted = list[str]()
    cache = LocalState().cache(CacheKind[str, str]("disposed", limit=1, on_evict=evicted.append))
    cache.put("a", "first")
    cache.put("b", "second")
    cache.pop("b")
    assert evicted == ["first"]


def test_each_server_has_caches_of_its_own() -> None:
    one, other = LocalState(), LocalState()
    one.cache(WORDS).put("a", "a")
    assert "a" not in other.cache(WORDS)
    one.clear_caches()
    assert len(one.cache(WORDS)) == 0


async def test_background_work_outlives_the_request_that_started_it() -> None:
    local, done = LocalState(), asyncio.Event()

    async def work() -> None:
        await asyncio.sleep(0)
        done.set()

    async def request() -> None:
        await asyncio.shield(local.start(work()))

    task = asyncio.create_task(request())
    await asyncio.sleep(0)
    task.cancel()
    gc.collect()
    async with asyncio.timeout(5):
        await done.wait()
