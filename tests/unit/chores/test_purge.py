"""Purging: announcement, files, records. Files of users stay, and a concurrent undrop succeeds fully or fails."""

from __future__ import annotations

import asyncio
import logging

import pytest
from msgspec.structs import force_setattr

from moorage.core.callers import LOCAL
from moorage.core.errors import AlreadyPurged, SecurableNotFound
from moorage.core.ids import SecurableId
from moorage.core.securables import Doc, Kind, Shelf, TableDoc
from moorage.storage.port import Storage
from moorage.storage.stores import Stores
from moorage.testing import builders as make
from moorage.usecases.catalog import objects
from moorage.usecases.ports import Errand
from moorage.usecases.upkeep.purge import purge_due
from tests.unit.chores.lakes import ClockedPorts, commit, new_table, waiting

HOUR_MS = 60 * 60 * 1000


async def drop(ports: ClockedPorts, id: SecurableId, hold_ms: int = HOUR_MS) -> None:
    await make.add(ports.ledger, make.drop(id, hold_ms=hold_ms))


async def catalog_of(ports: ClockedPorts, id: SecurableId) -> SecurableId:
    return (await ports.ledger.lineage(id)).chain[0].id


async def is_erased(ports: ClockedPorts, id: SecurableId) -> bool:
    return not (await ports.ledger.lineage(id)).chain


async def test_nothing_is_purged_before_its_hold_has_ended(ports: ClockedPorts) -> None:
    table = await new_table(ports, "t")
    await ports.storage.put_new(f"{ports.roots.managed}t/", "part-0", b"x")
    await drop(ports, table)
    ports.clock.advance(HOUR_MS - 1)
    assert await purge_due(ports) == 0
    assert await ports.storage.size(f"{ports.roots.managed}t/", "part-0") == 1
    ports.clock.advance(1)
    assert await purge_due(ports) == 1
    assert await ports.storage.list(f"{ports.roots.managed}t/", "") == ()
    assert await is_erased(ports, table)
    assert await purge_due(ports) == 0


async def test_a_dropped_tree_is_purged_with_everything_in_it_and_nothing_else(ports: ClockedPorts) -> None:
    table, other = await new_table(ports, "t"), await new_table(ports, "t0")
    for name in ("t", "t0"):
        await ports.storage.put_new(f"{ports.roots.managed}{name}/", "deep/part-0", b"x")
    catalog = await catalog_of(ports, table)
    inner = make.namespace((await ports.ledger.lineage(table)).chain[1].id, "inner")
    dropped_before = make.namespace(inner.id, "dropped before")
    await make.add(ports.ledger, inner, dropped_before, make.namespace(inner.id, "leaf"))
    await drop(ports, dropped_before.id, hold_ms=10 * HOUR_MS)
    await commit(ports, table, 0)
    await drop(ports, catalog)
    ports.clock.advance(HOUR_MS)
    assert await purge_due(ports) == 7  # catalog, sea, a neighbour, the table, inner, dropped before, leaf
    for id in (catalog, table, inner.id, dropped_before.id):
        assert await is_erased(ports, id)
    assert await ports.storage.list(f"{ports.roots.managed}t/", "") == ()
    assert len(await ports.storage.list(f"{ports.roots.managed}t0/", "")) == 1
    assert not await is_erased(ports, other)
    assert await waiting(ports) == []
    assert await ports.ledger.head(table, "main") is None


@pytest.mark.parametrize("location", ["t/", "brought/deep/"])
async def test_the_files_of_an_external_table_stay(ports: ClockedPorts, location: str) -> None:
    root = ports.roots.managed + location
    table = await new_table(ports, "t", managed=False, location=root)
    await ports.storage.put_new(root, "part-0", b"theirs")
    await drop(ports, table, hold_ms=0)
    assert await purge_due(ports) == 1
    assert await is_erased(ports, table)
    assert await ports.storage.size(root, "part-0") == 6


async def test_a_namespace_with_a_location_keeps_its_files(ports: ClockedPorts) -> None:
    """Its managed tables are stored there and purged on their own. Other files may be there too."""
    lake = await make.lake(ports.ledger)
    space = make.namespace(lake.catalog, "s", doc=Doc(location=f"{ports.roots.managed}s/"))
    await make.add(ports.ledger, space)
    await ports.storage.put_new(f"{ports.roots.managed}s/", "a", b"x")
    await drop(ports, space.id, hold_ms=0)
    assert await purge_due(ports) == 1
    assert await ports.storage.size(f"{ports.roots.managed}s/", "a") == 1


async def test_a_staging_table_that_never_became_a_table_expires_with_its_files(ports: ClockedPorts) -> None:
    lake = await make.lake(ports.ledger)
    location = f"{ports.roots.managed}stage/"
    staging = make.stage(lake.namespace, location, lifetime_ms=HOUR_MS, doc=Doc(location=location))
    await make.add(ports.ledger, staging)
    await ports.storage.put_new(location, "_delta_log/0.json", b"x")
    ports.clock.advance(HOUR_MS - 1)
    assert await purge_due(ports) == 0
    ports.clock.advance(1)
    assert await purge_due(ports) == 1
    assert await ports.storage.list(location, "") == ()
    assert await is_erased(ports, staging.id)
    again = make.stage(lake.namespace, location, lifetime_ms=HOUR_MS)
    await make.add(ports.ledger, again)  # the location is free again


async def test_files_that_cannot_be_deleted_delay_no_other_purge(
    ports: ClockedPorts, caplog: pytest.LogCaptureFixture
) -> None:
    lake = await make.lake(ports.ledger)
    foreign = [
        make.table(lake.namespace, f"f{n}", doc=Doc(location=f"s3://elsewhere/{n}/", table=TableDoc(format="delta")))
        for n in range(3)
    ]
    await make.add(ports.ledger, *foreign)
    for table in foreign:
        await drop(ports, table.id, hold_ms=0)
    own = await new_table(ports, "own")
    await drop(ports, own, hold_ms=0)
    with caplog.at_level(logging.ERROR):
        assert await purge_due(ports) == 1
    assert await is_erased(ports, own)
    assert "table 'f0' cannot be purged yet" in caplog.text
    chain = (await ports.ledger.lineage(foreign[0].id)).chain
    assert chain[-1].purged  # the purge is announced, and retried in every run


async def test_an_undrop_that_races_a_purge_restores_everything_or_nothing(ports: ClockedPorts) -> None:
    won = 0
    for n in range(20):
        catalog = make.catalog(ports.ledger.root, f"c{n}")
        inner = [make.namespace(catalog.id, f"n{k}") for k in range(5)]
        await make.add(ports.ledger, catalog, *inner)
        await drop(ports, catalog.id, hold_ms=1)
        errand = Errand(caller=LOCAL, api="test", request="undrop")

        async def undrop(id: SecurableId = catalog.id, errand: Errand = errand) -> bool:
            try:
                await objects.undrop(ports, errand, id, Kind.CATALOG)
            except (AlreadyPurged, SecurableNotFound):
                return False
            return True

        undropping = asyncio.create_task(undrop())
        if n % 2:
            await asyncio.sleep(0)
        ports.clock.advance(1)
        _, is_restored = await asyncio.gather(purge_due(ports), undropping)
        children = (await ports.ledger.children(catalog.id, Shelf.NAMESPACE)).items
        assert len(children) == (5 if is_restored else 0)
        assert (await is_erased(ports, catalog.id)) is not is_restored
        won += is_restored
    assert won > 0


async def test_two_concurrent_runs_erase_each_object_once(ports: ClockedPorts) -> None:
    catalog = make.catalog(ports.ledger.root, "c")
    await make.add(ports.ledger, catalog, *[make.namespace(catalog.id, f"n{k}") for k in range(900)])
    await drop(ports, catalog.id, hold_ms=0)
    assert sum(await asyncio.gather(purge_due(ports), purge_due(ports))) == 901
    entries = await ports.ledger.entries(0, limit=1000)
    erased = [id for entry in entries for change in entry.body.changes for id in getattr(change, "ids", ())]
    assert len(erased) == len(set(erased)) == 901


async def test_an_interrupted_purge_continues_where_it_stopped(ports: ClockedPorts) -> None:
    catalog = make.catalog(ports.ledger.root, "c")
    spaces = [make.namespace(catalog.id, f"n{k:03}") for k in range(300)]
    await make.add(ports.ledger, catalog, *spaces)
    await make.add(ports.ledger, *[make.namespace(space.id, "inner") for space in spaces])
    await drop(ports, catalog.id, hold_ms=0)
    seq = (await ports.ledger.position()).seq
    purging = asyncio.create_task(purge_due(ports))
    assert await ports.ledger.wait_for_entry_after(seq + 3, 20)
    purging.cancel()
    await asyncio.wait([purging])
    assert purging.cancelled()
    assert not await is_erased(ports, catalog.id)
    assert 0 < await purge_due(ports) < 601
    assert await is_erased(ports, catalog.id)


class Slow(Stores):
    """A store that deletes the files of one table slowly."""

    def __init__(self, storage: Storage, location: str) -> None:
        super().__init__(local=storage)
        self.location = location
        self.may_end = asyncio.Event()

    async def delete_all(self, root: str) -> None:
        if root == self.location:
            await self.may_end.wait()
        await super().delete_all(root)


async def test_a_slow_purge_delays_no_other(ports: ClockedPorts) -> None:
    slow, other = await new_table(ports, "slow"), await new_table(ports, "other")
    for table in (slow, other):
        await drop(ports, table, hold_ms=0)
    storage = Slow(ports.storage, f"{ports.roots.managed}slow/")
    force_setattr(ports, "storage", storage)
    purging = asyncio.create_task(purge_due(ports))
    async with asyncio.timeout(60):
        while not await is_erased(ports, other):
            await ports.ledger.wait_for_entry_after((await ports.ledger.position()).seq, 1)
    assert not await is_erased(ports, slow)
    storage.may_end.set()
    assert await purging == 2
    assert await is_erased(ports, slow)
