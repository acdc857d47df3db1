"""A hundred thousand objects dropped, a million names listed, and nobody else waits for it."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from moorage.core.securables import Shelf
from moorage.ledger.port import Ledger, Step
from moorage.ledger.postgres import PostgresLedger
from moorage.ledger.sqlite import SqliteLedger
from moorage.testing import builders as make
from moorage.testing.postgres import PostgresServer
from moorage.testing.server import ServerProcess
from tests.api.house import Console, console_at, done
from tests.scale.crowds import (
    FEW,
    TRIES,
    Bystander,
    Verdict,
    Wait,
    bystander,
    nobody_waits_during,
    plant_tree,
    sqlite_with_a_crowd,
)

SOAK = bool(os.environ.get("MOORAGE_SOAK"))
TREE = 100_000
CALM_SECONDS = 1.5
BUSY_SECONDS = 3.0
LONGEST_SECONDS = 60.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


async def wait_of(other: Bystander, seconds: float) -> Wait:
    """What somebody waits at most from now on, for a while."""
    other.waited()
    await asyncio.sleep(seconds)
    seen = other.waited()
    while seen.asked <= FEW and (seconds := seconds + 1) < LONGEST_SECONDS:  # a busy machine gets its time
        await asyncio.sleep(1)
        more = other.waited()
        seen = Wait(max(seen.longest, more.longest), seen.asked + more.asked)
    return seen


# --- a cascade -------------------------------------------------------------------------------------


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def store(request: pytest.FixtureRequest) -> PostgresServer | None:
    """Where the ledger is; None is SQLite."""
    return None if request.param == "sqlite" else request.getfixturevalue("postgres")


@pytest.fixture
def url(store: PostgresServer | None) -> Iterator[str | None]:
    url = store.new_database("tree") if store else None
    yield url
    if store and url:
        store.drop_database(url)


@pytest.fixture
async def data(tmp_path: Path, url: str | None) -> Path:
    """The folder of a server whose ledger holds a large tree."""
    ledger: Ledger = await (SqliteLedger.open(tmp_path / "data") if url is None else PostgresLedger.open(url))
    await make.add(ledger, make.catalog(ledger.root, "bystander"))
    await plant_tree(ledger, "tree", TREE)
    await ledger.close()
    return tmp_path / "data"


async def drop_and_undrop(console: Console) -> None:
    while True:
        gone = done(await console.delete("/catalogs/tree", cascade="true"))
        done(await console.post("/undrop", {"kind": "catalog", "id": gone["id"]}))


async def erased(console: Console, after: int) -> int:
    """How many objects the purge has erased since an entry."""
    count = 0
    while True:
        page = done(await console.get("/feed", after=after, limit=1000))
        if not page["entries"]:
            return count
        after = page["last_seq"]
        count += sum(len(change.get("ids", ())) for entry in page["entries"] for change in entry["story"]["changes"])


async def test_a_tree_of_a_hundred_thousand_is_dropped_and_undropped_beside_others(
    data: Path, url: str | None, store: PostgresServer | None
) -> None:
    with ServerProcess(data, database=url) as server, bystander(server, store) as other:
        async with console_at(server.url) as console:
            at_rest = await wait_of(other, CALM_SECONDS)
            dropping = asyncio.create_task(drop_and_undrop(console))

            async def measure() -> Verdict:
                return Verdict(at_rest, await wait_of(other, BUSY_SECONDS))

            await nobody_waits_during(measure)
            assert not dropping.done()
            dropping.cancel()
            with suppress(asyncio.CancelledError):
                await dropping


async def test_a_tree_of_a_hundred_thousand_is_purged_beside_others(
    data: Path, url: str | None, store: PostgresServer | None
) -> None:
    flags = ("--hold-days", "0")
    with ServerProcess(data, database=url, flags=flags) as server, bystander(server, store) as other:
        async with console_at(server.url) as console:
            at_rest = await wait_of(other, CALM_SECONDS)
            seq = await console.seq()
            done(await console.delete("/catalogs/tree", cascade="true"))

            async def measure() -> Verdict:
                since = await console.seq()
                verdict = Verdict(at_rest, await wait_of(other, BUSY_SECONDS))
                assert await erased(console, since), "nothing was purged meanwhile"
                return verdict

            await nobody_waits_during(measure)
            while SOAK and await erased(console, seq) < TREE + 1:
                verdict = Verdict(at_rest, await wait_of(other, BUSY_SECONDS))
                assert verdict.is_good, verdict


# --- a million names -------------------------------------------------------------------------------

CROWD = 1_000_000


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a server with a million namespaces in one catalog, a thousand in another."""
    data = tmp_path_factory.mktemp("crowd") / "data"
    asyncio.run(sqlite_with_a_crowd(data, big=CROWD, small=1000))
    return data


async def list_all(console: Console) -> int:
    """Every name of the large catalog, page after page; how many there were."""
    seen, token, last = 0, "", ""
    while True:
        page = done(await console.get("/catalogs/big/namespaces", max_results=1000, page_token=token))
        names = [item["name"] for item in page["items"]]
        assert names == sorted(names)
        assert last < names[0]
        seen, last = seen + len(names), names[-1]
        if page["next_page_token"] is None:
            return seen
        token = page["next_page_token"]


async def test_a_million_names_are_listed_beside_others(crowd: Path) -> None:
    with ServerProcess(crowd) as server, bystander(server) as other:
        async with console_at(server.url) as console:
            at_rest = await wait_of(other, CALM_SECONDS)
            listing = asyncio.create_task(list_all(console))

            async def measure() -> Verdict:
                assert not listing.done(), "the list was at its end before we could look"
                return Verdict(at_rest, await wait_of(other, BUSY_SECONDS))

            await nobody_waits_during(measure)
            if SOAK:
                assert await listing == CROWD + 1
            listing.cancel()
            with suppress(asyncio.CancelledError):
                await listing


async def test_a_page_of_a_million_names_costs_no_more_than_one_of_a_thousand(crowd: Path) -> None:
    """By the CPU time of the server, because the clock on the wall lies on a shared machine."""
    with ServerProcess(crowd) as server:
        async with console_at(server.url) as console:

            async def cpu_of(catalog: str) -> float:
                # A page from the middle: a list that counted from its beginning would show here.
                token = done(await console.get(f"/catalogs/{catalog}/namespaces", max_results=500))["next_page_token"]
                before = server.cpu_seconds()
                for _ in range(100):
                    page = await console.get(f"/catalogs/{catalog}/namespaces", max_results=100, page_token=token)
                    assert len(done(page)["items"]) == 100
                return server.cpu_seconds() - before

            await cpu_of("small")
            ratios: list[float] = []
            while len(ratios) < TRIES and min(ratios, default=2) >= 1.5:
                small, big = await cpu_of("small"), await cpu_of("big")
                ratios.append(big / small)
            assert ratios[-1] < 1.5, ratios


async def test_a_page_deep_in_the_list_costs_no_more_than_the_first(tmp_path: Path) -> None:
    await sqlite_with_a_crowd(tmp_path / "data", big=TREE, small=1)
    ledger = await SqliteLedger.open(tmp_path / "data")
    catalog = (await ledger.walk([Step(Shelf.CATALOG, "big")])).chain[-1]

    async def cpu_after(key: str) -> float:
        before = time.process_time()
        for _ in range(50):
            assert len((await ledger.children(catalog.id, Shelf.NAMESPACE, after=key)).items) == 100
        return time.process_time() - before

    await cpu_after("")
    ratios: list[float] = []
    while len(ratios) < TRIES and min(ratios, default=2) >= 1.5:
        first, deep = await cpu_after(""), await cpu_after(f"n{TREE // 2:08}")
        ratios.append(deep / first)
    await ledger.close()
    assert ratios[-1] < 1.5, ratios
