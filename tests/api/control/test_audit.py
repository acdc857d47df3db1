"""The audit of principals: what they did, what they were refused and why, and how long that is kept."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from moorage.core.accesses import Access, Tally
from moorage.usecases.identity import audit
from moorage.usecases.identity.audit import delete_old_accesses, store_accesses
from tests.api.control.guarded import CONTROL, UNITY, Guarded, open_guarded
from tests.api.house import done

AUDIT = "/api/moorage/v1/audit"
LAKE = f"{UNITY}/catalogs/lake"


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[Guarded]:
    async with open_guarded(tmp_path / "data") as guarded:
        await guarded.run("POST", f"{UNITY}/catalogs", {"name": "lake"})
        await guarded.run("POST", f"{UNITY}/schemas", {"name": "sea", "catalog_name": "lake"})
        yield guarded


async def listed(guarded: Guarded, **query: Any) -> list[dict[str, Any]]:
    await store_accesses(guarded.house.ports)
    answer = await guarded.house.console.http.get(
        AUDIT, params=query, headers={"authorization": f"Bearer {guarded.admin}"}
    )
    return list(done(answer)["items"])


def summary(lines: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(line["principal"], line["operation"], line["object"], line["outcome"]) for line in lines]


async def test_changes_and_refused_requests_are_recorded_and_reads_are_not(guarded: Guarded) -> None:
    ann = await guarded.user("ann")
    assert await guarded.status(guarded.admin, "GET", LAKE) == 200
    assert await guarded.status(ann, "GET", LAKE) == 404
    assert await guarded.status(ann, "DELETE", LAKE) == 404
    assert await guarded.status("moor_wrong", "GET", LAKE) == 401
    assert await guarded.status(guarded.admin, "POST", f"{UNITY}/catalogs", {"name": "lake"}) == 400
    found = await listed(guarded, api="unity")
    assert summary(found) == [
        ("admin", "createCatalog", "metastore", "allowed"),
        ("admin", "createSchema", "catalog lake", "allowed"),
        ("ann", "getCatalog", "catalog lake", "denied"),
        ("ann", "deleteCatalog", "catalog lake", "denied"),
        (None, "getCatalog", None, "denied"),
        ("admin", "createCatalog", "metastore", "failed"),
    ]
    assert [line["reason"] for line in found[2:]] == [
        "it needs BROWSE on catalog 'lake'",
        "it needs MANAGE on catalog 'lake'",
        "this is not a token of this server; create one with `moorage token create`",
        "NameTaken",
    ]
    assert {line["address"] for line in found} == {"127.0.0.1"}


async def test_equal_requests_are_one_line(guarded: Guarded) -> None:
    ann = await guarded.user("ann")
    for _ in range(3):
        await guarded.status(ann, "GET", LAKE)
    (line,) = await listed(guarded, principal="ann")
    assert (line["requests"], line["outcome"]) == (3, "denied")


async def test_reads_are_recorded_by_a_setting(tmp_path: Path) -> None:
    async with open_guarded(tmp_path / "data", audit="all") as guarded:
        await guarded.run("POST", f"{UNITY}/catalogs", {"name": "lake"})
        await guarded.run("GET", LAKE)
        assert ("admin", "getCatalog", "catalog lake", "allowed") in summary(await listed(guarded, api="unity"))


async def test_the_list_is_filtered(guarded: Guarded) -> None:
    ann = await guarded.user("ann")
    await guarded.status(ann, "GET", f"{UNITY}/schemas/lake.sea")
    await guarded.status(ann, "GET", LAKE)
    await store_accesses(guarded.house.ports)
    later = guarded.house.clock() + 1000
    guarded.house.clock.advance(2000)
    await guarded.status(ann, "POST", f"{UNITY}/catalogs", {"name": "other"})
    for query, operations in (
        ({"principal": "ann"}, ["getSchema", "getCatalog", "createCatalog"]),
        ({"principal": "ann", "object": "lake"}, ["getSchema", "getCatalog"]),
        ({"principal": "ann", "object": "lake.sea"}, ["getSchema"]),
        ({"principal": "ANN", "object": "Lake.SEA"}, ["getSchema"]),
        ({"principal": "ann", "object": "lak"}, []),
        ({"principal": "ann", "since_ms": later}, ["createCatalog"]),
        ({"principal": "ann", "until_ms": later}, ["getSchema", "getCatalog"]),
        ({"principal": "ann", "outcome": "allowed"}, []),
        ({"operation": "createCatalog", "outcome": "denied"}, ["createCatalog"]),
        ({"api": "control"}, ["createUser", "createToken"]),
    ):
        assert [line["operation"] for line in await listed(guarded, **query)] == operations, query


async def test_a_list_continues_after_each_page(guarded: Guarded) -> None:
    for number in range(7):
        await guarded.status(guarded.admin, "POST", f"{UNITY}/catalogs", {"name": f"c{number}"})
        await store_accesses(guarded.house.ports)
        guarded.house.clock.advance(10)
    seen, token = 0, ""
    headers = {"authorization": f"Bearer {guarded.admin}"}
    for _ in range(20):
        query: dict[str, str | int] = {"operation": "createCatalog", "max_results": 2, "page_token": token}
        page = done(await guarded.house.console.http.get(AUDIT, params=query, headers=headers))
        seen += sum(line["requests"] for line in page["items"])
        token = page["next_page_token"]
        if token is None:
            break
    assert seen == 8


async def test_only_administrators_read_the_audit(guarded: Guarded) -> None:
    ann = await guarded.user("ann")
    assert await guarded.status(ann, "GET", AUDIT) == 403
    assert await guarded.status(None, "GET", AUDIT) == 401


async def test_old_lines_are_deleted(guarded: Guarded) -> None:
    assert len(await listed(guarded)) > 0
    day = 24 * 60 * 60 * 1000
    guarded.house.clock.advance(89 * day)
    await guarded.user("late")
    assert await delete_old_accesses(guarded.house.ports) == 0
    await store_accesses(guarded.house.ports)
    guarded.house.clock.advance(2 * day)
    assert await delete_old_accesses(guarded.house.ports) == 1
    assert [line["operation"] for line in await listed(guarded)] == ["createUser", "createToken"]


async def test_a_flood_of_refused_requests_is_counted_without_details(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store_accesses(guarded.house.ports)
    monkeypatch.setattr(audit, "_MAX_DETAILED", 3)
    for number in range(10):
        await guarded.status(guarded.admin, "GET", f"{CONTROL}/scim2/Users/x{number}")
        await guarded.status("moor_wrong", "GET", f"/api/moorage/v1/catalogs/c{number}/namespaces")
        await guarded.status("moor_wrong", "GET", LAKE)
    pending: dict[Access, Tally] = guarded.house.ports.local.accesses
    assert len(pending) <= 4
    assert sum(tally.requests for tally in pending.values()) == 20
