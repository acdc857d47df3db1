"""Rows that are added under an idempotency key are added once."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.api.house import House, at_once, done
from tests.datasets.lines import stream_of

THREE = stream_of({"id": [1, 2, 3]})


@pytest.fixture
async def lake(house: House) -> House:
    await house.console.make("lake")
    await house.console.make("lake", "sea")
    return house


async def post(lake: House, what: str, body: bytes, *, key: str | None = None, **query: Any) -> httpx.Response:
    headers = {} if key is None else {"idempotency-key": key}
    path = f"/lance/v1/table/lake$sea$t/{what}"
    return await lake.console.http.post(path, content=body, params=query, headers=headers)


async def rows(lake: House) -> int:
    return int(done(await post(lake, "count_rows", b"")))


async def test_a_repeated_creation_gets_its_first_answer_whatever_became_of_the_table(lake: House) -> None:
    first = done(await post(lake, "create", THREE, key="k", properties='{"a": "1"}'))
    assert done(await post(lake, "create", THREE, key="k", properties='{"a": "1"}')) == first
    done(await post(lake, "insert", THREE))
    assert done(await post(lake, "create", THREE, key="k", properties='{"a": "1"}')) == first
    done(await post(lake, "drop", b""))
    assert done(await post(lake, "create", THREE, key="k", properties='{"a": "1"}')) == first
    assert (await post(lake, "count_rows", b"")).status_code == 404


async def test_what_was_refused_is_refused_again(lake: House) -> None:
    done(await post(lake, "create", THREE))
    refusal = await post(lake, "create", THREE, key="c")
    assert (refusal.status_code, refusal.json()["code"]) == (409, 5)
    done(await post(lake, "drop", b""))
    assert (await post(lake, "create", THREE, key="c")).json()["code"] == 5
    assert (await post(lake, "insert", THREE, key="i")).json()["code"] == 4
    done(await post(lake, "create", THREE))
    assert (await post(lake, "insert", THREE, key="i")).json()["code"] == 4
    assert await rows(lake) == 3


async def test_a_repeated_insert_adds_its_rows_once(lake: House) -> None:
    done(await post(lake, "create", THREE))
    first = done(await post(lake, "insert", THREE, key="k"))
    assert (first["version"], first["num_inserted_rows"]) == (2, 3)
    done(await post(lake, "insert", THREE))
    assert done(await post(lake, "insert", THREE, key="k")) == first
    assert await rows(lake) == 9
    refusal = await post(lake, "insert", stream_of({"id": [4]}), key="k")
    assert (refusal.status_code, refusal.json()["code"]) == (400, 13)


async def test_the_same_request_many_times_at_once_is_carried_out_once(lake: House) -> None:
    created = await at_once(*[post(lake, "create", THREE, key="c") for _ in range(3)])
    assert [each.json() for each in created] == [done(created[0])] * 3
    inserted = await at_once(*[post(lake, "insert", THREE, key="i") for _ in range(3)])
    assert [each.json() for each in inserted] == [done(inserted[0])] * 3
    assert await rows(lake) == 6


async def test_who_inserts_under_different_keys_at_once_adds_all_rows(lake: House) -> None:
    done(await post(lake, "create", THREE))
    answers = await at_once(*[post(lake, "insert", THREE, key=f"k{n}") for n in range(4)])
    assert sorted(done(each)["version"] for each in answers) == [2, 3, 4, 5]
    assert await rows(lake) == 15
