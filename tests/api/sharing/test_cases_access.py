"""Cases A and L: authentication, errors and listings."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from moorage.core.entries import Update
from moorage.core.errors import Busy, InvalidInput
from moorage.core.securables import Doc
from moorage.core.shares import parse_shared_as, require_share_name
from moorage.testing import builders as make
from moorage.testing.builders import HOUR_MS
from moorage.usecases.sharing import granted, queries
from tests.api.routes import EVERY_ROUTE, path_of
from tests.api.sharing.provider import Provider, Recipient, at, error_of, lines_of
from tests.snapshots.log_builder import PROTOCOL, add, metadata

NOT_FOUND = "RESOURCE_DOES_NOT_EXIST"
INVALID = "INVALID_PARAMETER_VALUE"


@pytest.fixture
async def offered(provider: Provider) -> Provider:
    for name in ("t", "u", "v"):
        provider.log(name).commit(PROTOCOL, metadata(), *[add(f"{n}.parquet") for n in range(3)])
        await provider.offer(name, schema="bay" if name == "v" else "sea")
    return provider


# --- authentication and errors ---------------------------------------------------------------------


async def test_case_a1_to_a3_a_bearer_token_is_required(recipient: Recipient) -> None:
    answer = await recipient.get("/shares", token=None)
    error_of(answer, 401, "UNAUTHENTICATED")
    assert answer.headers["content-type"].startswith("application/json")
    for wrong in ("x", recipient.token[:-1] + "t", recipient.token + "s", f"moor_{'0' * 32}_{'s' * 43}"):
        error_of(await recipient.get("/shares", token=wrong), 401, "UNAUTHENTICATED")
    headers = {"authorization": f"bearer {recipient.token}"}
    assert (await recipient.get("/shares", token=None, headers=headers)).status_code == 200


async def test_case_a4_an_expired_token_is_told_so(provider: Provider, recipient: Recipient) -> None:
    provider.house.clock.advance(25 * HOUR_MS)
    assert "expired" in error_of(await recipient.get("/shares"), 401)


EVERY_READ = [
    ("GET", ""),
    ("GET", "/schemas"),
    ("GET", "/all-tables"),
    ("GET", "/schemas/sea/tables"),
    ("GET", "/schemas/sea/tables/t/version"),
    ("HEAD", "/schemas/sea/tables/t"),
    ("GET", "/schemas/sea/tables/t/metadata"),
    ("POST", "/schemas/sea/tables/t/query"),
    ("POST", "/schemas/sea/tables/t/queries/1"),
    ("GET", "/schemas/sea/tables/t/changes?startingVersion=0"),
    ("POST", "/schemas/sea/tables/t/temporary-table-credentials"),
]


def test_every_route_of_a_share_is_tried() -> None:
    """A new route must be in the list of the test below."""
    names = {"share": "fish", "schema": "sea", "table": "t", "query_id": "1"}
    routes = [each.route for each in EVERY_ROUTE if each.api.name == "sharing"]
    of_shares = {(route.verb, path_of(route, **names)) for route in routes if "{share}" in route.pattern.path}
    tried = {(verb, f"/delta-sharing/shares/fish{path.partition('?')[0]}") for verb, path in EVERY_READ}
    assert tried == of_shares


@pytest.mark.parametrize(("verb", "path"), EVERY_READ)
async def test_case_a5_a_recipient_learns_nothing_about_the_shares_of_others(
    offered: Provider, verb: str, path: str
) -> None:
    content = b"{}" if verb == "POST" else None
    foreign = await offered.stranger.send(verb, f"/shares/fish{path}", content=content)
    unknown = await offered.stranger.send(verb, f"/shares/fist{path}", content=content)
    assert foreign.status_code == unknown.status_code == 404
    if verb != "HEAD":
        assert error_of(foreign, 404, NOT_FOUND) == error_of(unknown, 404, NOT_FOUND).replace("fist", "fish")
    listed = (await offered.stranger.get("/shares")).json()
    assert [share["name"] for share in listed["items"]] == ["other"]


async def test_case_a6_and_a7_unknown_routes_and_methods_have_the_same_error_shape(recipient: Recipient) -> None:
    for path in ("/share", "/shares/fish/tables", "/"):
        error_of(await recipient.get(path), 404, NOT_FOUND)
    error_of(await recipient.send("DELETE", "/shares"), 405)


async def test_case_a8_a_fault_before_the_first_line_reveals_nothing(
    offered: Provider, recipient: Recipient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: Any) -> Any:
        raise RuntimeError("/secret/path")

    monkeypatch.setattr(offered.ports.snapshots, "at", fail)
    answer = await recipient.query()
    assert "secret" not in error_of(answer, 500, "INTERNAL_ERROR")
    assert answer.headers["content-type"].startswith("application/json")


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Responses fail after their first files."""
    whole = queries._Response._tails_in_blocks

    async def fail(self: Any, parts: Any) -> AsyncIterator[Any]:
        async for tails in whole(self, parts):
            yield tails.slice(0, 1)
            raise RuntimeError("/secret/path")

    monkeypatch.setattr(queries._Response, "_tails_in_blocks", fail)


@pytest.mark.usefixtures("broken")
async def test_case_a9_a_fault_in_the_middle_is_the_last_line_for_clients_that_ask_for_it(
    offered: Provider, recipient: Recipient
) -> None:
    headers = {"delta-sharing-capabilities": "includeendstreamaction=true"}
    lines = lines_of(await recipient.post(f"{at('t')}/query", headers=headers))
    end = lines[-1]["endStreamAction"]
    assert end["errorMessage"]
    assert end["httpStatusErrorCode"] == 500
    assert "secret" not in json.dumps(lines)


@pytest.mark.usefixtures("broken")
async def test_case_a10_a_fault_in_the_middle_cuts_the_connection(offered: Provider, recipient: Recipient) -> None:
    with pytest.raises(httpx.RemoteProtocolError):
        await recipient.query()


async def test_case_a11_an_overloaded_server_answers_429(
    offered: Provider, recipient: Recipient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def busy(*_: Any, **__: Any) -> Any:
        raise Busy("the share changes all the time")

    monkeypatch.setattr(granted, "list_all_tables", busy)
    error_of(await recipient.get("/shares/fish/all-tables"), 429)


# --- listings --------------------------------------------------------------------------------------


async def pages(recipient: Recipient, path: str, size: int) -> list[Any]:
    found: list[Any] = []
    query: dict[str, Any] = {"maxResults": size}
    while True:
        body = (await recipient.get(path, params=query)).json()
        assert len(body["items"]) <= size
        found += body["items"]
        if not body.get("nextPageToken"):
            return found
        query["pageToken"] = body["nextPageToken"]


async def test_case_l1_shares_are_one_line_of_json(offered: Provider, recipient: Recipient) -> None:
    answer = await recipient.get("/shares")
    assert answer.json() == {"items": [{"name": "Fish", "id": offered.share.id}]}
    assert answer.headers["content-type"] == "application/json; charset=utf-8"
    assert len(answer.text.splitlines()) == 1


async def test_case_l2_a_recipient_without_shares_gets_an_empty_list(provider: Provider, recipient: Recipient) -> None:
    await provider.change_recipient(provider.details(recipient))
    assert (await recipient.get("/shares")).json() == {"items": []}


async def test_case_l3_shares_are_listed_in_pages(provider: Provider, recipient: Recipient) -> None:
    await provider.change_recipient(provider.details(recipient, provider.share.id, provider.other.id))
    assert [share["name"] for share in await pages(recipient, "/shares", 1)] == ["Fish", "other"]


@pytest.mark.parametrize(
    "path", ["/shares", "/shares/fish/schemas", "/shares/fish/schemas/sea/tables", "/shares/fish/all-tables"]
)
async def test_case_l4_to_l8_page_sizes_and_tokens_are_checked(
    offered: Provider, recipient: Recipient, path: str
) -> None:
    none = await recipient.get(path, params={"maxResults": 0})
    assert (none.status_code, none.json()["items"]) == (200, [])
    for wrong in ("-1", "string", "1.5"):
        error_of(await recipient.get(path, params={"maxResults": wrong}), 400, INVALID)
    assert (await recipient.get(path, params={"maxResults": 501})).status_code == 200
    error_of(await recipient.get(path, params={"pageToken": "garbage"}), 400, INVALID)


async def test_case_l9_and_l10_a_token_continues_only_its_own_list(offered: Provider, recipient: Recipient) -> None:
    body = (await recipient.get("/shares/fish/schemas", params={"maxResults": 1})).json()
    token = {"pageToken": body["nextPageToken"]}
    await offered.change_recipient(offered.details(recipient, offered.share.id, offered.other.id))
    for path in ("/shares", "/shares/fish/all-tables", "/shares/fish/schemas/sea/tables", "/shares/other/schemas"):
        error_of(await recipient.get(path, params=token), 400, INVALID)
    assert (await recipient.get("/shares/fish/schemas", params=token)).status_code == 200


async def test_case_l11_to_l14_a_share_and_its_schemas(offered: Provider, recipient: Recipient) -> None:
    assert (await recipient.get("/shares/fish")).json() == {"share": {"name": "Fish", "id": offered.share.id}}
    error_of(await recipient.get("/shares/unknown"), 404, NOT_FOUND)
    schemas = [{"name": "bay", "share": "Fish"}, {"name": "sea", "share": "Fish"}]
    assert (await recipient.get("/shares/fish/schemas")).json() == {"items": schemas}
    assert await pages(recipient, "/shares/fish/schemas", 1) == schemas
    error_of(await recipient.get("/shares/unknown/schemas"), 404, NOT_FOUND)


async def test_a_listing_is_one_line_for_every_client(provider: Provider, recipient: Recipient) -> None:
    """The Python client splits responses at these characters, and reads the first line of a listing."""
    comment = "a\u0085b\u2028c\u2029d"
    await make.add(provider.house.ledger, Update(id=provider.share.id, doc=Doc(comment=comment)))
    await provider.offer("t\u2028u")
    for path in ("/shares", "/shares/fish", "/shares/fish/all-tables", "/shares/fish/schemas/sea/tables"):
        assert len((await recipient.get(path)).text.splitlines()) == 1
    assert (await recipient.get("/shares/fish")).json()["share"]["comment"] == comment
    assert (await recipient.get("/shares/fish/all-tables")).json()["items"][0]["name"] == "t\u2028u"


async def test_case_l15_to_l19_tables_of_a_schema_and_of_a_share(offered: Provider, recipient: Recipient) -> None:
    items = (await recipient.get("/shares/fish/schemas/sea/tables")).json()["items"]
    assert [set(item) for item in items] == [{"name", "schema", "share", "shareId", "id", "accessModes"}] * 2
    assert [item["name"] for item in items] == ["t", "u"]
    assert await pages(recipient, "/shares/fish/schemas/sea/tables", 1) == items
    error_of(await recipient.get("/shares/fish/schemas/unknown/tables"), 404, NOT_FOUND)
    error_of(await recipient.get("/shares/unknown/schemas/sea/tables"), 404, NOT_FOUND)
    every = (await recipient.get("/shares/fish/all-tables")).json()["items"]
    assert [(item["schema"], item["name"]) for item in every] == [("bay", "v"), ("sea", "t"), ("sea", "u")]
    assert await pages(recipient, "/shares/fish/all-tables", 1) == every


async def test_case_l20_all_tables_exists_for_every_share_so_that_no_client_falls_back(
    provider: Provider, recipient: Recipient
) -> None:
    assert (await recipient.get("/shares/fish/all-tables")).json() == {"items": []}
    await provider.offer("t")
    (item,) = (await recipient.get("/shares/fish/all-tables")).json()["items"]
    assert (item["schema"], item["name"]) == ("sea", "t")


async def test_case_l21_names_are_case_insensitive(offered: Provider, recipient: Recipient) -> None:
    for share, schema, table in (("FISH", "SEA", "T"), ("fish", "Sea", "t")):
        assert (await recipient.get(f"/shares/{share}/schemas/{schema}/tables")).json()["items"]
        assert (await recipient.get(f"{at(table, schema, share)}/metadata")).status_code == 200


async def test_case_l22_names_are_decoded(offered: Provider, recipient: Recipient) -> None:
    assert (await recipient.get("/shares/%46ish/schemas/s%65a/tables/%74/version")).status_code == 200


async def test_case_l23_names_that_clients_cannot_address_are_refused() -> None:
    for name in ("a b", "a/b", "a\x07b", "a\x7fb", "x" * 256, ""):
        with pytest.raises(InvalidInput):
            require_share_name(name)
        with pytest.raises(InvalidInput):
            parse_shared_as(f"sea.{name}", "TABLE")
        with pytest.raises(InvalidInput):
            parse_shared_as(name, "SCHEMA")
    with pytest.raises(InvalidInput):
        parse_shared_as("sea.a.b", "TABLE")


async def test_case_l24_a_table_that_is_added_while_pages_are_read_causes_no_duplicate(
    offered: Provider, recipient: Recipient
) -> None:
    path = "/shares/fish/schemas/sea/tables"
    first = (await recipient.get(path, params={"maxResults": 1})).json()
    await offered.offer("a")
    await offered.offer("z")
    rest = (await recipient.get(path, params={"pageToken": first["nextPageToken"]})).json()
    assert [item["name"] for item in (*first["items"], *rest["items"])] == ["t", "u", "z"]
