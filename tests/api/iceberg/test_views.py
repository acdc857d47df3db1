"""Views over HTTP: together with tables, and as other APIs show them."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import httpx

from moorage.api.iceberg.bodies import EXAMPLE_SCHEMA
from moorage.api.iceberg.views import EXAMPLE_VERSION
from tests.api.iceberg.lake import Lake, refused, set_property, to_space, to_table


def to_view(name: str) -> str:
    return f"{to_space('sales')}/views/{quote(name, safe='')}"


async def create(lake: Lake, name: str, *, key: Any = None, **given: Any) -> httpx.Response:
    body = {"name": name, "schema": EXAMPLE_SCHEMA, "view-version": EXAMPLE_VERSION, "properties": {}, **given}
    return await lake.ask("POST", f"{to_space('sales')}/views", body, key=key)


async def replace(lake: Lake, name: str, *updates: Any, requires: Any = ()) -> httpx.Response:
    return await lake.ask("POST", to_view(name), {"requirements": requires, "updates": updates})


def new_query(sql: str) -> list[dict[str, Any]]:
    version = {**EXAMPLE_VERSION, "representations": [{"type": "sql", "sql": sql, "dialect": "spark"}]}
    return [
        {"action": "add-view-version", "view-version": version},
        {"action": "set-current-view-version", "view-version-id": -1},
    ]


async def test_a_view_is_created_replaced_renamed_and_dropped(lake: Lake) -> None:
    made = await create(lake, "totals", properties={"comment": "sums"})
    assert made.status_code == 200, made.text
    assert (await lake.ask("GET", to_view("totals"))).json() == made.json()
    assert (await lake.ask("HEAD", to_view("totals"))).status_code == 204
    own = [{"type": "assert-view-uuid", "uuid": made.json()["metadata"]["view-uuid"]}]
    replaced = await replace(lake, "totals", *new_query("select 2"), requires=own)
    assert replaced.json()["metadata"]["current-version-id"] == 2
    assert replaced.headers["etag"] != made.headers["etag"]
    source = {"namespace": ["sales"], "name": "totals"}
    to = {"namespace": ["sales"], "name": "sums"}
    assert (await lake.ask("POST", "/views/rename", {"source": source, "destination": to})).status_code == 204
    listed = (await lake.ask("GET", f"{to_space('sales')}/views")).json()["identifiers"]
    assert listed == [to]
    assert (await lake.ask("DELETE", to_view("sums"))).status_code == 204
    refused(await lake.ask("GET", to_view("sums")), 404, "NoSuchViewException", "View does not exist: sales.sums")


async def test_views_and_tables_share_one_name_scope(lake: Lake) -> None:
    await create(lake, "v")
    await lake.create("t")
    refused(await create(lake, "t"), 409, "AlreadyExistsException", "Table with same name already exists: sales.t")
    refused(await lake.create("v"), 409, "AlreadyExistsException", "View with same name already exists: sales.v")
    refused(await create(lake, "V"), 409, "AlreadyExistsException", "View already exists: sales.V")
    refused(await lake.load("v"), 404, "NoSuchTableException")
    refused(await lake.commit("v", set_property("a")), 404, "NoSuchTableException")
    refused(await lake.ask("GET", to_view("t")), 404, "NoSuchViewException")
    refused(await lake.ask("DELETE", to_view("t")), 404, "NoSuchViewException")
    refused(await lake.ask("DELETE", to_table("v")), 404, "NoSuchTableException")
    body = {"source": {"namespace": ["sales"], "name": "v"}, "destination": {"namespace": ["sales"], "name": "t"}}
    refused(await lake.ask("POST", "/views/rename", body), 409, "AlreadyExistsException", "Table already exists")
    assert [each["name"] for each in (await lake.ask("GET", f"{to_space('sales')}/tables")).json()["identifiers"]] == [
        "t"
    ]


async def test_a_replacement_that_fails_leaves_no_file(lake: Lake) -> None:
    await create(lake, "v")
    other = [{"type": "assert-view-uuid", "uuid": str(uuid4())}]
    refused(await replace(lake, "v", *new_query("select 2"), requires=other), 409, "CommitFailedException")
    refused(await replace(lake, "v", {"action": "add-spec"}), 400, "BadRequestException", "updates[0]")
    assert len(lake.metadata_files()) == 1


async def test_a_view_has_one_query_for_each_dialect(lake: Lake) -> None:
    twice = [{"type": "sql", "sql": "select 1", "dialect": dialect} for dialect in ("trino", "Trino")]
    answer = await create(lake, "v", **{"view-version": {**EXAMPLE_VERSION, "representations": twice}})
    refused(answer, 400, "IllegalArgumentException", "Cannot add multiple queries for dialect trino")


async def test_concurrent_replacements_all_succeed(lake: Lake) -> None:
    await create(lake, "v", properties={"version.history.num-entries": "50"})
    answers = await asyncio.gather(*[replace(lake, "v", *new_query(f"select {n}")) for n in range(8)])
    assert [answer.status_code for answer in answers] == [200] * 8
    assert len((await lake.ask("GET", to_view("v"))).json()["metadata"]["versions"]) == 9


async def test_a_retried_creation_creates_one_view(lake: Lake) -> None:
    key = str(uuid4())
    first, again = await create(lake, "v", key=key), await create(lake, "v", key=key)
    assert first.json() == again.json()
    assert len(lake.metadata_files()) == 1


async def test_a_dropped_view_can_be_registered_again(lake: Lake) -> None:
    made = (await create(lake, "v")).json()
    body = {"name": "v", "metadata-location": made["metadata-location"]}
    path = f"{to_space('sales')}/register-view"
    refused(await lake.ask("POST", path, body), 409, "AlreadyExistsException", "View already exists")
    await lake.ask("DELETE", to_view("v"))
    assert (await lake.ask("POST", path, body)).json() == made
    table = (await lake.create("t")).json()["metadata-location"]
    wrong = await lake.ask("POST", path, {"name": "w", "metadata-location": table})
    refused(wrong, 400, "BadRequestException")


async def test_other_apis_show_the_columns_and_the_sql_of_a_view(lake: Lake) -> None:
    await create(lake, "v")
    (record,) = (await lake.house.console.get("/catalogs/lake/namespaces/sales/tables")).json()["items"]
    assert (record["kind"], [each["name"] for each in record["columns"]]) == ("view", ["id", "city"])
    unity = (await lake.house.console.http.get("/api/2.1/unity-catalog/tables/lake.sales.v")).json()
    assert (unity["table_type"], unity["view_definition"]) == ("VIEW", "select id, city from shipments")


async def test_views_are_listed_in_pages_and_have_etags(lake: Lake) -> None:
    made = [await create(lake, f"v{n}") for n in range(7)]
    pages: list[list[str]] = []
    token: Any = ""
    while token is not None:
        page = (await lake.ask("GET", f"{to_space('sales')}/views", pageSize=3, pageToken=token)).json()
        pages.append([each["name"] for each in page["identifiers"]])
        token = page["next-page-token"]
    assert pages == [["v0", "v1", "v2"], ["v3", "v4", "v5"], ["v6"]]
    same = await lake.ask("GET", to_view("v6"), tag=made[6].headers["etag"])
    assert (same.status_code, same.content) == (304, b"")
    assert (await lake.ask("GET", to_view("v6"), tag=made[5].headers["etag"])).status_code == 200
