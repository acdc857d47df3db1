"""Lance namespaces, and the encoding of identifiers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.house import House, done
from tests.api.lance.lake import LANCE, LanceClient, refused


async def test_a_namespace_of_one_name_is_a_catalog_and_contains_others(lake: LanceClient, house: House) -> None:
    assert done(await lake.space("ml", "create", properties={"owner": "ann"})) == {"properties": {"owner": "ann"}}
    assert done(await lake.space("ml$raw", "create", id=["ml", "raw"])) == {"properties": {}}
    assert done(await lake.space("ml$raw$deep", "create")) == {"properties": {}}
    assert done(await lake.space("ml", "describe")) == {"properties": {"owner": "ann"}}
    assert done(await lake.space("$", "describe")) == {"properties": {}}
    for id in ("ml", "ml$raw", "ml$raw$deep", "$"):
        answer = await lake.space(id, "exists")
        assert (answer.status_code, answer.content) == (200, b"")
    assert (await lake.look("/namespace/$/list"))["namespaces"] == ["lake", "ml"]
    assert (await lake.look("/namespace/ml$raw/list"))["namespaces"] == ["deep"]
    assert await house.console.names("/catalogs") == ["lake", "ml"]
    refused(await lake.space("ml$raw", "create"), 409, 2, "ml.raw")
    refused(await lake.space("ml", "create"), 409, 2)
    refused(await lake.space("ml$none", "describe"), 404, 1, "ml.none")
    refused(await lake.space("none", "exists"), 404, 1, "none")
    refused(await lake.space("none$x", "create"), 404, 1, "none")
    refused(await lake.space("$", "create"), 400, 13, "root")
    refused(await lake.space("$", "drop"), 400, 13, "root")


@pytest.mark.parametrize("mode", ["ExistOk", "exist_ok", "EXISTOK", "existok"])
async def test_a_mode_is_accepted_in_any_case(lake: LanceClient, mode: str) -> None:
    done(await lake.space("lake$sea", "create", mode=mode, properties={"x": "y"}))
    assert done(await lake.space("lake$sea", "describe")) == {"properties": {}}
    assert done(await lake.space("lake$new", "create", mode=mode, properties={"x": "y"})) == {"properties": {"x": "y"}}


async def test_overwriting_a_namespace_leaves_it_empty(lake: LanceClient) -> None:
    await lake.declare("lake$sea$t")
    done(await lake.space("lake$sea", "create", mode="Overwrite", properties={"a": "b"}))
    assert done(await lake.space("lake$sea", "describe")) == {"properties": {"a": "b"}}
    assert (await lake.look("/namespace/lake$sea/table/list"))["tables"] == []
    done(await lake.space("lake$land", "create", mode="overwrite"))
    refused(await lake.space("lake$land", "create", mode="replace"), 400, 13, "mode", "replace")


async def test_a_namespace_that_is_not_empty_is_dropped_only_with_cascade(lake: LanceClient) -> None:
    await lake.declare("lake$sea$t")
    refused(await lake.space("lake$sea", "drop"), 409, 3)
    refused(await lake.space("lake", "drop", behavior="Restrict"), 409, 3)
    refused(await lake.space("lake$sea", "drop", behavior="perhaps"), 400, 13, "behavior")
    done(await lake.space("lake", "drop", mode="Skip", behavior="cascade"))
    refused(await lake.space("lake", "drop"), 404, 1)
    refused(await lake.space("lake$sea", "drop", mode="fail"), 404, 1)
    assert done(await lake.space("lake", "drop", mode="skip")) == {"properties": {}}


async def test_namespaces_are_listed_page_by_page(lake: LanceClient) -> None:
    for n in range(7):
        done(await lake.space(f"lake$n{n}", "create"))
    names: list[str] = []
    token: dict[str, Any] = {}
    for _ in range(3):
        page = await lake.look("/namespace/lake/list", limit=3, **token)
        names += page["namespaces"]
        token = {"page_token": page.get("page_token")}
    assert token == {"page_token": None}
    assert names == [*(f"n{n}" for n in range(7)), "sea"]


async def test_identifiers_are_split_after_they_are_decoded(lake: LanceClient) -> None:
    """Names may have slashes, percent signs, ampersands, spaces and accents. A plus is a space, as in a form."""
    for raw, delimiter, names in (
        ("lake%24sea%24a%2Fb", "$", ["lake", "sea", "a/b"]),
        ("lake$sea$50%25%26more", "$", ["lake", "sea", "50%&more"]),
        ("lake%24sea%24a+b%2Bc", "$", ["lake", "sea", "a b+c"]),
        ("lake%24sea%24a%20c", "$", ["lake", "sea", "a c"]),
        ("lake%24sea%24%C3%A9t%C3%A9", "$", ["lake", "sea", "été"]),
        ("lake%2Esea%2Ec$d", ".", ["lake", "sea", "c$d"]),
        ("lake::sea::x:y", "::", ["lake", "sea", "x:y"]),
    ):
        query = {"delimiter": delimiter}
        path = f"{LANCE}/table/{raw}"
        done(await lake.http.post(f"{path}/declare", params=query, json={"id": names}))
        described = done(await lake.http.post(f"{path}/describe", params=query))
        assert [*described["namespace"], described["table"]] == names


async def test_a_body_that_contradicts_the_path_is_refused(lake: LanceClient) -> None:
    await lake.declare("lake$sea$t")
    other = ["lake", "sea", "other"]
    for verb in ("describe", "exists", "drop", "deregister", "version/describe"):
        refused(await lake.table("lake$sea$t", verb, {"id": other}), 400, 13, "id", "other")
    refused(await lake.table("lake$sea$t2", "declare", {"id": ["lake", "sea$t2"]}), 400, 13, "id")
    refused(await lake.space("lake", "describe", id=["pond"]), 400, 13, "id")
    for wrong in ("lake$$t", "$t", "lake$sea$", "lake$sea$a%07"):
        answer = await lake.http.post(f"{LANCE}/table/{wrong}/declare")
        refused(answer, 400, 13, "id")


async def test_additional_fields_and_headers_of_clients_are_ignored(lake: LanceClient) -> None:
    body = {"identity": {"api_key": "k"}, "context": {"header.x": "y"}, "future": [1], "id": ["lake", "sea", "t"]}
    headers = {"x-api-key": "k", "x-lance-ctx-trace": "7", "x-lancedb-min-timestamp": "2026-11-15T07:21:13+00:00"}
    answer = await lake.http.post(f"{LANCE}/table/lake$sea$t/declare", json=body, headers=headers)
    assert done(answer)["managed_versioning"] is True
    for path in ("describe", "exists", "version/list", "version/describe", "tags/list", "branches/list", "drop"):
        answer = await lake.http.post(f"{LANCE}/table/lake$sea$t/{path}", headers=headers)
        assert "content-type" not in answer.request.headers
        assert answer.status_code == (404 if path == "version/describe" else 200), answer.text
