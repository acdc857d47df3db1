"""The same catalog on PostgreSQL: it stores the same text and numbers as on SQLite."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from moorage.ledger.postgres import PostgresLedger
from moorage.testing.builders import Clock
from tests.api.house import Console, House, done, open_house, to_catalog, to_namespace
from tests.api.routes import EVERY_ROUTE, furnish, send
from tests.api.test_bad_input import WRONG_TEXTS, WRONG_VALUES, is_well_formed, settled
from tests.api.test_names import GOOD

pytestmark = pytest.mark.postgres


@pytest.fixture
async def house(tmp_path: Path, database_url: str) -> AsyncIterator[House]:
    clock = Clock()
    ledger = await PostgresLedger.open(database_url, clock_ms=clock)
    async with open_house(tmp_path / "data", ledger=ledger) as house:
        yield house


async def test_names_are_returned_as_given_and_in_the_same_order_as_on_sqlite(console: Console) -> None:
    for name in GOOD:
        made = await console.make(name, comment=name, properties={name: name})
        assert done(await console.get(to_catalog(name))) == made
        assert (made["name"], made["comment"], made["properties"]) == (name, name, {name: name})
    listed = await console.names("/catalogs")
    assert sorted(listed) == sorted(GOOD)
    # Sorted by the bytes of their keys, as on SQLite, and not by the collation of the database.
    await console.make("order")
    for name in ("b", "C", "a", "B2", "é", "z", "_"):
        await console.make("order", name)
    assert await console.names("/catalogs/order/namespaces") == ["_", "a", "b", "B2", "C", "z", "é"]
    page = done(await console.get("/catalogs/order/namespaces", max_results=4))
    rest = await console.names("/catalogs/order/namespaces", page_token=page["next_page_token"])
    assert rest == ["C", "z", "é"]


async def test_numbers_and_nested_values_are_returned_unchanged(console: Console) -> None:
    nest: Any = 1
    for _ in range(100):
        nest = [nest]
    args = {"big": 2**63 - 1, "huge": 10**30, "float": 1e300, "tiny": 5e-324, "nest": nest, "text": "🚢\u2028\x01"}
    job = done(await console.post("/jobs", {"kind": "audit", "args": args}), 202)
    assert job["args"] == args
    assert done(await console.get("/feed", after=1))["entries"][0]["story"]["jobs"][0]["args"] == args


CHANGING = ["createCatalog", "createNamespace", "updateCatalog", "createJob", "takeJob", "transact"]


@pytest.mark.parametrize("operation", CHANGING)
async def test_invalid_input_never_causes_a_server_error(house: House, operation: str) -> None:
    await furnish(house)
    seq: int = (await house.ledger.position()).seq
    route = next(p.route for p in EVERY_ROUTE if p.api.name == "console" and p.route.operation == operation)
    for name in route.example.body:
        for value in WRONG_VALUES:
            seq = await settled(house, await send(house, route, body={**route.example.body, name: value}), seq)
        for text in WRONG_TEXTS:
            raw = b'{"%s":%s}' % (name.encode(), text)
            answer = await send(house, route, raw=raw)
            seq = await settled(house, answer, seq)
            assert not answer.is_success or await is_well_formed(house)


async def test_a_tree_is_dropped_undropped_and_swapped(house: House, console: Console) -> None:
    for path in (("c",), ("c", "a"), ("c", "b"), ("c", "a", "deep")):
        await console.make(*path)
    swap = [
        {"op": "rename", "kind": "namespace", "path": ["c", "a"], "to": ["c", "b"]},
        {"op": "rename", "kind": "namespace", "path": ["c", "b"], "to": ["c", "a"]},
    ]
    done(await console.post("/transactions", {"operations": swap}))
    assert done(await console.get(to_namespace("c", "b", "deep")))["name"] == "deep"
    gone = done(await console.delete("/catalogs/c", cascade="true"))
    done(await console.post("/undrop", {"kind": "catalog", "id": gone["id"], "new_name": "d"}))
    assert await console.names("/catalogs/d/namespaces") == ["a", "b"]
