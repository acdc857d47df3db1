"""Paging: complete, in order, stable under changes, and with tokens that are valid for one list."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from moorage.core.callers import LOCAL
from moorage.core.ids import SecurableId
from moorage.core.securables import Shelf
from moorage.testing import builders as make
from moorage.usecases.catalog import browse
from moorage.usecases.catalog.addresses import catalog
from tests.api.house import Console, House, done, refused, to_catalog, to_namespace


async def pages(console: Console, path: str, size: int, **query: Any) -> list[list[str]]:
    found: list[list[str]] = []
    token = ""
    while True:
        page = done(await console.get(path, max_results=size, page_token=token, **query))
        found.append([item["name"] for item in page["items"]])
        if page["next_page_token"] is None:
            return found
        token = page["next_page_token"]


async def first_token(console: Console, path: str, **query: Any) -> str:
    return str(done(await console.get(path, max_results=1, **query))["next_page_token"])


async def test_a_list_is_paged_in_the_order_of_its_names(console: Console) -> None:
    for name in ("delta", "Alpha", "charlie", "Bravo", "echo", "éclair", "Zulu"):
        await console.make(name)
    assert await pages(console, "/catalogs", 3) == [
        ["Alpha", "Bravo", "charlie"],
        ["delta", "echo", "Zulu"],
        ["éclair"],
    ]
    assert await pages(console, "/catalogs", 7) == [["Alpha", "Bravo", "charlie", "delta", "echo", "Zulu", "éclair"]]
    assert len(await pages(console, "/catalogs", 1)) == 7
    assert await console.names("/catalogs", max_results=0) == await console.names("/catalogs")


async def test_nested_namespaces_are_paged_by_parent(console: Console) -> None:
    await console.make("lake")
    await console.make("lake", "a")
    await console.make("lake", "b")
    for n in range(5):
        await console.make("lake", "a", f"n{n}")
    assert await pages(console, "/catalogs/lake/namespaces", 2) == [["a", "b"]]
    assert await pages(console, "/catalogs/lake/namespaces", 2, parent="a") == [["n0", "n1"], ["n2", "n3"], ["n4"]]


async def test_a_name_of_255_characters_fits_a_token(console: Console) -> None:
    names = [f"{letter}{'🚢' * 254}" for letter in "abc"]
    for name in names:
        await console.make(name)
    assert await pages(console, "/catalogs", 1) == [[name] for name in names]


async def test_objects_created_or_dropped_between_pages_neither_repeat_nor_hide_others(console: Console) -> None:
    for n in range(10, 20):
        await console.make(f"c{n}")
    first = done(await console.get("/catalogs", max_results=4))
    assert [item["name"] for item in first["items"]] == ["c10", "c11", "c12", "c13"]
    await console.make("c00")  # before the page that was read
    await console.make("c135")  # after it
    done(await console.delete("/catalogs/c13"))  # the name that the token continues after
    done(await console.delete("/catalogs/c15"))
    done(await console.post("/catalogs/c10:rename", {"new_name": "c99"}))
    second = done(await console.get("/catalogs", max_results=4, page_token=first["next_page_token"]))
    assert [item["name"] for item in second["items"]] == ["c135", "c14", "c16", "c17"]
    third = done(await console.get("/catalogs", max_results=4, page_token=second["next_page_token"]))
    assert [item["name"] for item in third["items"]] == ["c18", "c19", "c99"]
    assert third["next_page_token"] is None


async def test_a_changed_token_is_refused(console: Console) -> None:
    for name in ("a", "b", "c"):
        await console.make(name)
    token = await first_token(console, "/catalogs")
    changed = [token[:n] + ("A" if token[n] != "A" else "B") + token[n + 1 :] for n in range(len(token))]
    for wrong in (*changed, token[:-1], token + "A", token + "=", token + "==", token * 2, " " + token, "x", "🚢", "%"):
        answer = await console.get("/catalogs", page_token=wrong)
        refused(answer, 400, "INVALID_INPUT", "page_token")


async def test_a_token_is_invalid_for_every_other_list(house: House) -> None:
    console = house.console
    for name in ("a", "b"):
        await console.make(name)
        for inner in ("x", "y"):
            await console.make(name, inner)
            for deeper in ("m", "n"):
                await console.make(name, inner, deeper)
    lists: list[tuple[str, dict[str, Any]]] = [
        ("/catalogs", {}),
        ("/catalogs/a/namespaces", {}),
        ("/catalogs/b/namespaces", {}),
        ("/catalogs/a/namespaces", {"parent": "x"}),
    ]
    for path, query in lists:
        token = await first_token(console, path, **query)
        done(await console.get(path, page_token=token, **query))
        for other_path, other_query in (*lists, ("/jobs", {}), (f"{to_namespace('a', 'x')}/tables", {})):
            if (other_path, other_query) != (path, query):
                answer = await console.get(other_path, page_token=token, **other_query)
                refused(answer, 400, "INVALID_INPUT", "page_token")
        refused(await console.get(path, caller="bob", page_token=token, **query), 400, "INVALID_INPUT", "page_token")


async def test_a_token_survives_a_rename_of_the_parent_but_not_its_drop(console: Console) -> None:
    await console.make("a")
    for inner in ("x", "y"):
        await console.make("a", inner)
    token = await first_token(console, "/catalogs/a/namespaces")
    done(await console.post("/catalogs/a:rename", {"new_name": "z"}))
    assert await console.names("/catalogs/z/namespaces", page_token=token) == ["y"]
    done(await console.delete("/catalogs/z", cascade="true"))
    await console.make("z")
    refused(await console.get("/catalogs/z/namespaces", page_token=token), 400, "INVALID_INPUT", "page_token")


@pytest.mark.parametrize("size", ["-1", "1001", "1.5", "x", "", "99999999999999999999", "NaN", "true"])
async def test_an_invalid_page_size_is_refused(console: Console, size: str) -> None:
    await console.make("a")
    for path in ("/catalogs", f"{to_catalog('a')}/namespaces", "/jobs"):
        refused(await console.get(path, max_results=size), 400, "INVALID_INPUT", "max_results")


async def test_reading_a_whole_list_lets_other_tasks_run_between_pages(house: House) -> None:
    lake = SecurableId((await house.console.make("lake"))["id"])
    for batch in ("a", "b", "c"):
        await make.add(house.ledger, *[make.namespace(lake, f"{batch}{n:03}") for n in range(700)])
    turns = 0

    async def run_beside() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(run_beside())
    seen = [
        (len(page.items), turns)
        async for page in browse.pages(house.ports, LOCAL, catalog("lake"), Shelf.NAMESPACE, token=None, limit=10)
    ]
    other.cancel()
    assert [size for size, _ in seen] == [1000, 1000, 100]
    assert len({turn for _, turn in seen}) == 3
