"""Namespaces: nesting, properties, paging."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.iceberg.lake import Lake, refused, to_space


async def names(lake: Lake, parent: str = "") -> list[list[str]]:
    found: list[list[str]] = (await lake.ask("GET", "/namespaces", parent=parent)).json()["namespaces"]
    return found


async def test_namespaces_nest_to_any_depth(lake: Lake) -> None:
    for depth in range(2, 6):
        levels = ["sales", *(f"l{n}" for n in range(2, depth + 1))]
        assert (await lake.create_space(*levels)).json()["namespace"] == levels
    assert await names(lake) == [["sales"]]
    assert await names(lake, parent="sales") == [["sales", "l2"]]
    assert await names(lake, parent="sales\x1fl2") == [["sales", "l2", "l3"]]
    assert (await lake.ask("HEAD", to_space("sales", "l2"))).status_code == 204
    assert (await lake.ask("HEAD", to_space("sales", "l9"))).status_code == 404


async def test_a_namespace_requires_the_levels_above_it(lake: Lake) -> None:
    refused(await lake.create_space("none", "eu"), 404, "NoSuchNamespaceException", "Namespace does not exist: none")
    refused(await lake.create_space("sales"), 409, "AlreadyExistsException", "Namespace already exists: sales")
    refused(await lake.create_space(), 400, "BadRequestException", "namespace")
    refused(await lake.create_space("sales", ""), 400, "BadRequestException", "namespace")
    refused(await lake.ask("GET", "/namespaces", parent="none"), 404, "NoSuchNamespaceException")


@pytest.mark.parametrize("name", ["with.dot", "with space", "with/slash", "ünïcode 🚢", "a%2Fb", "..", "?", "+"])
async def test_names_may_contain_characters_that_other_apis_cannot_address(lake: Lake, name: str) -> None:
    assert (await lake.create_space("sales", name)).json()["namespace"] == ["sales", name]
    assert (await lake.ask("GET", to_space("sales", name))).json()["namespace"] == ["sales", name]
    assert (await lake.create("t." + name, space=("sales", name))).status_code == 200
    listed = (await lake.ask("GET", f"{to_space('sales', name)}/tables")).json()["identifiers"]
    assert listed == [{"namespace": ["sales", name], "name": "t." + name}]


async def test_properties_change_and_missing_removals_are_reported(lake: Lake) -> None:
    await lake.create_space("hr", properties={"owner": "ann", "comment": "people"})
    path = to_space("hr")
    answer = await lake.ask("POST", f"{path}/properties", {"removals": ["owner", "none"], "updates": {"a": "1"}})
    assert answer.json() == {"updated": ["a"], "removed": ["owner"], "missing": ["none"]}
    assert (await lake.ask("GET", path)).json()["properties"] == {"a": "1", "comment": "people"}
    await lake.ask("POST", f"{path}/properties", {"removals": ["comment"]})
    assert (await lake.ask("GET", path)).json()["properties"] == {"a": "1"}


async def test_one_request_cannot_set_and_remove_the_same_property(lake: Lake) -> None:
    body = {"removals": ["a"], "updates": {"a": "1"}}
    answer = await lake.ask("POST", f"{to_space('sales')}/properties", body)
    refused(answer, 422, "UnprocessableEntityException", "same key: a")


async def test_only_an_empty_namespace_can_be_dropped(lake: Lake) -> None:
    await lake.create("orders")
    refused(await lake.ask("DELETE", to_space("sales")), 409, "NamespaceNotEmptyException", "is not empty")
    await lake.ask("DELETE", f"{to_space('sales')}/tables/orders")
    assert (await lake.ask("DELETE", to_space("sales"))).status_code == 204
    refused(await lake.ask("DELETE", to_space("sales")), 404, "NoSuchNamespaceException", "Namespace does not exist")


async def test_a_list_is_paged_only_if_the_request_has_a_page_token(lake: Lake) -> None:
    for n in range(7):
        await lake.create_space("sales", f"n{n}")
        await lake.create(f"t{n}")
    for path, field in (("/namespaces", "namespaces"), (f"{to_space('sales')}/tables", "identifiers")):
        parent = {"parent": "sales"} if field == "namespaces" else {}
        whole = (await lake.ask("GET", path, pageSize=3, **parent)).json()
        assert (len(whole[field]), whole["next-page-token"]) == (7, None)
        pages: list[Any] = []
        token: Any = ""
        while token is not None:
            page = (await lake.ask("GET", path, pageSize=3, pageToken=token, **parent)).json()
            pages.append(page[field])
            token = page["next-page-token"]
        assert [len(page) for page in pages] == [3, 3, 1]
        assert [item for page in pages for item in page] == whole[field]
        refused(await lake.ask("GET", path, pageToken="made up", **parent), 400, "BadRequestException", "pageToken")
