"""Comment and properties set through Unity or the console are stored in the metadata of an Iceberg table."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.api.house import done
from tests.api.house import refused as refused_there
from tests.api.iceberg.lake import PERSISTED, Lake, set_property
from tests.api.iceberg.test_views import create as create_view

UNITY = "/api/2.1/unity-catalog"


async def patch(lake: Lake, name: str, **changes: Any) -> Any:
    return await lake.house.console.http.patch(f"{UNITY}/tables/lake.sales.{name}", json=changes)


async def load_record(lake: Lake, name: str) -> Any:
    return (await lake.house.console.http.get(f"{UNITY}/tables/lake.sales.{name}")).json()


async def test_a_description_set_through_unity_is_a_commit_to_the_table(lake: Lake) -> None:
    await lake.create("orders", properties={"a": "1", "comment": "old"})
    answer = await patch(lake, "orders", properties={"b": "2"}, comment="new", owner="bob", new_name="sold")
    assert answer.status_code == 200, answer.text
    found = await lake.metadata("sold")
    assert (found["properties"], len(found["metadata-log"])) == ({"b": "2", "comment": "new"}, 1)
    for record in (answer.json(), await load_record(lake, "sold")):
        assert (record["name"], record["owner"], record["comment"]) == ("sold", "bob", "new")
        assert record["properties"] == found["properties"]


async def test_setting_properties_keeps_the_comment_and_setting_the_comment_keeps_properties(lake: Lake) -> None:
    await lake.create("orders", properties={"a": "1"})
    await patch(lake, "orders", comment="said")
    assert (await lake.metadata("orders"))["properties"] == {**PERSISTED, "a": "1", "comment": "said"}
    await patch(lake, "orders", properties={"b": "2"})
    assert (await lake.metadata("orders"))["properties"] == {"b": "2", "comment": "said"}
    await lake.commit("orders", set_property("c"))
    assert (await load_record(lake, "orders"))["properties"] == {"b": "2", "c": "1", "comment": "said"}


async def test_a_revision_that_the_metadata_does_not_contain_makes_no_version(lake: Lake) -> None:
    first = (await lake.create("orders", properties={"a": "1"})).json()
    properties = {**PERSISTED, "a": "1"}
    assert (await patch(lake, "orders", owner="bob", properties=properties)).status_code == 200
    assert (await load_record(lake, "orders"))["owner"] == "bob"
    assert (await lake.load("orders")).json() == first
    assert len(lake.metadata_files()) == 1


async def test_a_revision_through_unity_is_not_lost_to_a_concurrent_commit(lake: Lake) -> None:
    await lake.create("orders")
    for days in range(1, 11):
        commits = [lake.commit("orders", set_property(f"p{n}", str(days))) for n in range(4)]
        answers = await asyncio.gather(*commits[:2], patch(lake, "orders", retention_days=days), *commits[2:])
        assert {answer.status_code for answer in answers} == {200}
        record = await load_record(lake, "orders")
        expected = {**PERSISTED, **{f"p{n}": str(days) for n in range(4)}}
        assert (record["retention_days"], record["properties"]) == (days, expected)


async def test_a_transaction_sets_properties_in_the_metadata(lake: Lake) -> None:
    await lake.create("orders", properties={"a": "1", "b": "2"})
    op = {"op": "set_properties", "kind": "table", "path": ["lake", "sales", "orders"]}
    body = {"operations": [op | {"properties": {"c": "3"}, "remove": ["a"]}]}
    done(await lake.house.console.post("/transactions", body))
    assert (await lake.metadata("orders"))["properties"] == {**PERSISTED, "b": "2", "c": "3"}
    both = {"operations": [op | {"properties": {"c": "3"}, "remove": ["c"]}]}
    refused_there(
        await lake.house.console.post("/transactions", both), 400, "INVALID_INPUT", "operations[0].remove_properties"
    )


async def test_the_comment_of_a_view_can_be_set_only_through_iceberg(lake: Lake) -> None:
    made = (await create_view(lake, "v")).json()
    answer = await patch(lake, "v", comment="said")
    assert (answer.status_code, "replace the view with an Iceberg client" in answer.text) == (400, True)
    assert (await lake.ask("GET", "/namespaces/sales/views/v")).json() == made
