"""One description: what Unity and the console say about an Iceberg table stands in its metadata."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.api.house import done
from tests.api.house import refused as refused_there
from tests.api.iceberg.lake import Lake, set_property
from tests.api.iceberg.test_views import create as create_view

UNITY = "/api/2.1/unity-catalog"


async def patch(lake: Lake, name: str, **said: Any) -> Any:
    return await lake.house.console.http.patch(f"{UNITY}/tables/lake.sales.{name}", json=said)


async def shown(lake: Lake, name: str) -> Any:
    return (await lake.house.console.http.get(f"{UNITY}/tables/lake.sales.{name}")).json()


async def test_what_unity_says_about_a_table_is_a_commit_to_it(lake: Lake) -> None:
    await lake.create("orders", properties={"a": "1", "comment": "old"})
    answer = await patch(lake, "orders", properties={"b": "2"}, comment="new", owner="bob", new_name="sold")
    assert answer.status_code == 200, answer.text
    found = await lake.metadata("sold")
    assert (found["properties"], len(found["metadata-log"])) == ({"b": "2", "comment": "new"}, 1)
    for record in (answer.json(), await shown(lake, "sold")):
        assert (record["name"], record["owner"], record["comment"]) == ("sold", "bob", "new")
        assert record["properties"] == found["properties"]


async def test_a_comment_stays_when_only_properties_are_given_and_the_other_way_round(lake: Lake) -> None:
    await lake.create("orders", properties={"a": "1"})
    await patch(lake, "orders", comment="said")
    assert (await lake.metadata("orders"))["properties"] == {"a": "1", "comment": "said"}
    await patch(lake, "orders", properties={"b": "2"})
    assert (await lake.metadata("orders"))["properties"] == {"b": "2", "comment": "said"}
    await lake.commit("orders", set_property("c"))
    assert (await shown(lake, "orders"))["properties"] == {"b": "2", "c": "1", "comment": "said"}


async def test_what_the_metadata_does_not_know_makes_no_version(lake: Lake) -> None:
    first = (await lake.create("orders", properties={"a": "1"})).json()
    assert (await patch(lake, "orders", owner="bob", properties={"a": "1"})).status_code == 200
    assert (await shown(lake, "orders"))["owner"] == "bob"
    assert (await lake.load("orders")).json() == first
    assert len(lake.metadata_files()) == 1


async def test_what_unity_says_is_not_lost_to_a_commit_at_the_same_moment(lake: Lake) -> None:
    await lake.create("orders")
    for days in range(1, 11):
        commits = [lake.commit("orders", set_property(f"p{n}", str(days))) for n in range(4)]
        answers = await asyncio.gather(*commits[:2], patch(lake, "orders", retention_days=days), *commits[2:])
        assert {answer.status_code for answer in answers} == {200}
        record = await shown(lake, "orders")
        assert (record["retention_days"], record["properties"]) == (days, {f"p{n}": str(days) for n in range(4)})


async def test_a_transaction_sets_properties_in_the_metadata(lake: Lake) -> None:
    await lake.create("orders", properties={"a": "1", "b": "2"})
    op = {"op": "set_properties", "kind": "table", "path": ["lake", "sales", "orders"]}
    body = {"operations": [op | {"properties": {"c": "3"}, "remove": ["a"]}]}
    done(await lake.house.console.post("/transactions", body))
    assert (await lake.metadata("orders"))["properties"] == {"b": "2", "c": "3"}
    both = {"operations": [op | {"properties": {"c": "3"}, "remove": ["c"]}]}
    refused_there(
        await lake.house.console.post("/transactions", both), 400, "INVALID_INPUT", "operations[0].remove_properties"
    )


async def test_a_view_is_described_through_iceberg_only(lake: Lake) -> None:
    made = (await create_view(lake, "v")).json()
    answer = await patch(lake, "v", comment="said")
    assert (answer.status_code, "replace it through Iceberg" in answer.text) == (400, True)
    assert (await lake.ask("GET", "/namespaces/sales/views/v")).json() == made
