"""Dropping a hundred thousand objects or listing a million names does not make other clients wait."""

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
    TOO_FEW_REQUESTS,
    TRIES,
    Bystander,
    Verdict,
    Wait,
    bystander,
    create_crowded_ledger,
    create_tree,
    require_short_waits,
)

SOAK = bool(os.environ.get("MOORAGE_SOAK"))
TREE = 100_000
IDLE_SECONDS = 1.5
BUSY_SECONDS = 3.0
MAX_SECONDS = 60.0
PAGES = 1_000
"""So many that they take ten times the unit in which the kernel counts CPU time, which is 10 ms."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


async def wait_of(other: Bystander, seconds: float) -> Wait:
    """The longest wait of the bystander during the next seconds."""
    other.waited()
    await asyncio.sleep(seconds)
    seen = other.waited()
    while seen.requests <= TOO_FEW_REQUESTS and (seconds := seconds + 1) < MAX_SECONDS:  # wait longer on a busy machine
        await asyncio.sleep(1)
        more = other.waited()
        seen = Wait(max(seen.longest, more.longest), seen.requests + more.requests)
    return seen


# --- a cascade -------------------------------------------------------------------------------------


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def store(request: pytest.FixtureRequest) -> PostgresServer | None:
    """The database server of the ledger. None means SQLite."""
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
    await create_tree(ledger, "tree", TREE)
    await ledger.close()
    return tmp_path / "data"


async def drop_and_undrop(console: Console) -> None:
    while True:
        dropped = done(await console.delete("/catalogs/tree", cascade="true"))
        done(await console.post("/undrop", {"kind": "catalog", "id": dropped["id"]}))


async def erased(console: Console, after: int) -> int:
    """The number of objects that the purge has erased since an entry."""
    count = 0
    while True:
        page = done(await console.get("/feed", after=after, limit=1000))
        if not page["entries"]:
            return count
        after = page["last_seq"]
        count += sum(len(change.get("ids", ())) for entry in page["entries"] for change in entry["story"]["changes"])


async def test_dropping_a_hundred_thousand_objects_does_not_delay_other_clients(
    data: Path, url: str | None, store: PostgresServer | None
) -> None:
    with ServerProcess(data, database=url) as server, bystander(server, store) as other:
        async with console_at(server.url) as console:
            idle = await wait_of(other, IDLE_SECONDS)
            dropping = asyncio.create_task(drop_and_undrop(console))

            async def measure() -> Verdict:
                return Verdict(idle, await wait_of(other, BUSY_SECONDS))

            await require_short_waits(measure)
            assert not dropping.done()
            dropping.cancel()
            with suppress(asyncio.CancelledError):
                await dropping


async def test_purging_a_hundred_thousand_objects_does_not_delay_other_clients(
    data: Path, url: str | None, store: PostgresServer | None
) -> None:
    flags = ("--hold-days", "0")
    with ServerProcess(data, database=url, flags=flags) as server, bystander(server, store) as other:
        async with console_at(server.url) as console:
            idle = await wait_of(other, IDLE_SECONDS)
            seq = await console.seq()
            done(await console.delete("/catalogs/tree", cascade="true"))

            async def measure() -> Verdict:
                since = await console.seq()
                verdict = Verdict(idle, await wait_of(other, BUSY_SECONDS))
                assert await erased(console, since), "nothing was purged during the measurement"
                return verdict

            await require_short_waits(measure)
            while SOAK and await erased(console, seq) < TREE + 1:
                verdict = Verdict(idle, await wait_of(other, BUSY_SECONDS))
                assert verdict.is_short, verdict


# --- a million names -------------------------------------------------------------------------------

CROWD = 1_000_000


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a server with a million namespaces in one catalog, a thousand in another."""
    data = tmp_path_factory.mktemp("crowd") / "data"
    asyncio.run(create_crowded_ledger(data, big=CROWD, small=1000))
    return data


async def list_all(console: Console) -> int:
    """List every name of the large catalog, page after page, and return their number."""
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


def test_a_million_names_do_not_delay_the_start(crowd: Path, tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        empty = server.cpu_seconds()
    with ServerProcess(crowd) as server:
        assert server.cpu_seconds() < 3 * empty


async def test_listing_a_million_names_does_not_delay_other_clients(crowd: Path) -> None:
    with ServerProcess(crowd) as server, bystander(server) as other:
        async with console_at(server.url) as console:
            idle = await wait_of(other, IDLE_SECONDS)
            listing = asyncio.create_task(list_all(console))

            async def measure() -> Verdict:
                assert not listing.done(), "the listing ended before the measurement"
                return Verdict(idle, await wait_of(other, BUSY_SECONDS))

            await require_short_waits(measure)
            if SOAK:
                assert await listing == CROWD + 1
            listing.cancel()
            with suppress(asyncio.CancelledError):
                await listing


async def test_a_page_of_a_million_names_costs_no_more_than_one_of_a_thousand(crowd: Path) -> None:
    """Measured by the CPU time of the server, because elapsed time is unreliable on a shared machine."""
    with ServerProcess(crowd) as server:
        async with console_at(server.url) as console:

            async def cpu_of(catalog: str) -> float:
                # A page from the middle: a listing that read from the beginning would cost more here.
                token = done(await console.get(f"/catalogs/{catalog}/namespaces", max_results=500))["next_page_token"]
                before = server.cpu_seconds()
                for _ in range(PAGES):
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
    await create_crowded_ledger(tmp_path / "data", big=TREE, small=1)
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
