"""Purging tables in locations that clients chose: only files of the table are deleted."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import force_setattr

from moorage.core.errors import Unavailable
from moorage.storage.port import Storage
from moorage.storage.stores import Stores
from moorage.testing.manifest_writer import entry, manifest, manifest_list
from moorage.testing.storage_kit import MUCH
from moorage.usecases.iceberg import metadata_files as iceberg_files
from moorage.usecases.upkeep.purge import purge_due
from tests.api.house import done, on_s3, open_house
from tests.api.iceberg.lake import SPACE, Lake, refused, set_property, to_space, to_table
from tests.api.iceberg.test_locations import move
from tests.api.iceberg.test_tables import DAYS_8_MS, set_main

pytestmark = pytest.mark.xdist_group("s3")


class Shop:
    """A lake, and a location in which clients create tables, on local disk or in an object store."""

    def __init__(self, lake: Lake, own: str) -> None:
        self.lake = lake
        self.own = own
        self.snapshots = 0

    @property
    def storage(self) -> Storage:
        return self.lake.house.ports.storage

    async def put(self, path: str, data: bytes = b"rows") -> str:
        """Write a file, and return its location."""
        await self.storage.overwrite(f"{self.own}/", path, data)
        return f"{self.own}/{path}"

    async def files(self) -> list[str]:
        return [each.path for each in await self.storage.list(f"{self.own}/", "")]

    async def add(self, table: str, *entries: Any, broken: bool = False, **given: Any) -> None:
        """Commit a snapshot with one more manifest, in the folder of the table."""
        folder, n = (await self.lake.metadata(table))["location"].removeprefix(f"{self.own}/"), self.snapshots + 1
        path = await self.put(f"{folder}/metadata/m{n}.avro", b"no Avro" if broken else manifest(*entries))
        line = {"manifest_path": path, "manifest_length": 1, "partition_spec_id": 0, "content": 0, **given}
        listed = await self.put(f"{folder}/metadata/s{n}.avro", manifest_list(line))
        snapshot = {"snapshot-id": n, "sequence-number": n, "timestamp-ms": n, "manifest-list": listed}
        done(await self.lake.commit(table, {"action": "add-snapshot", "snapshot": snapshot}, set_main(n)))
        self.snapshots = n

    async def purge(self, table: str) -> None:
        assert (await self.lake.ask("DELETE", to_table(table), purgeRequested=True)).status_code == 204

    async def wait_out_the_hold(self) -> None:
        self.lake.house.clock.advance(DAYS_8_MS)
        await purge_due(self.lake.house.ports)


@pytest.fixture(params=["disk", "s3"])
async def shop(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Shop]:
    data, own = tmp_path / "data", tmp_path / "own"
    if request.param == "s3":
        minio = request.getfixturevalue("minio")
        root = f"s3://{minio.new_bucket()}/lake/"
        settings, folder = on_s3(minio, root), f"{root}own"
    else:
        own.mkdir()
        settings, folder = {"external_folder": own}, f"file://{own}"
    async with open_house(data, **settings) as house:
        await house.console.make("lake")
        lake = Lake(house, data)
        assert (await lake.create_space(*SPACE)).status_code == 200
        yield Shop(lake, folder)


STATISTICS: dict[str, Any] = {"snapshot-id": 1, "file-size-in-bytes": 4, "file-footer-size-in-bytes": 4}


async def filled_table(shop: Shop, name: str = "orders", folder: str = "t") -> None:
    """Create a table with files of every kind."""
    done(await shop.lake.create(name, location=f"{shop.own}/{folder}"))
    first = await shop.put(f"{folder}/data/city=a%2Fb ü+c/1.parquet")
    await shop.add(name, entry(first))
    deletes = await shop.put(f"{folder}/data/2-deletes.parquet")
    deleted = await shop.put(f"{folder}/data/3.parquet")
    await shop.add(name, entry(deletes, content=1), entry(deleted, status=2), content=1)
    puffin = await shop.put(f"{folder}/metadata/stats.puffin")
    parts = await shop.put(f"{folder}/metadata/parts.parquet")
    partly = {"snapshot-id": 1, "statistics-path": parts, "file-size-in-bytes": 4}
    statistics = {**STATISTICS, "statistics-path": puffin, "blob-metadata": []}
    done(
        await shop.lake.commit(
            name,
            {"action": "set-statistics", "statistics": statistics},
            {"action": "set-partition-statistics", "partition-statistics": partly},
            # One metadata file in the log: only the ledger knows the older ones.
            {"action": "set-properties", "updates": {"write.metadata.previous-versions-max": "1"}},
        )
    )
    done(await shop.lake.commit(name, set_property("a")))


async def test_only_files_of_the_table_are_deleted_and_only_after_the_hold(shop: Shop) -> None:
    theirs = [await shop.put(path) for path in ("t/data/theirs.parquet", "t/inner/metadata/v1.json", "readme")]
    await filled_table(shop)
    before = await shop.files()
    assert len(before) == len(theirs) + 5 + 4 + 5, before
    await shop.purge("orders")
    await purge_due(shop.lake.house.ports)
    assert await shop.files() == before
    await shop.wait_out_the_hold()
    assert await shop.files() == ["readme", "t/data/theirs.parquet", "t/inner/metadata/v1.json"]
    assert done(await shop.lake.create("again", location=f"{shop.own}/t"))


async def test_a_folder_that_only_the_table_used_is_deleted(shop: Shop) -> None:
    await filled_table(shop)
    if shop.own.startswith("file:"):
        await shop.put("t/data/.2-deletes.parquet.crc")
    await shop.purge("orders")
    await shop.wait_out_the_hold()
    assert await shop.files() == []
    if shop.own.startswith("file:"):
        assert "t" not in os.listdir(shop.own.removeprefix("file://"))


async def test_files_outside_the_tables_locations_are_kept(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    done(await shop.lake.create("orders", location=f"{shop.own}/t"))
    outside = [await shop.put(path) for path in ("t2/a.parquet", "b.parquet")]
    climbing = f"{shop.own}/t/../b.parquet"
    await shop.add("orders", *(entry(path) for path in (*outside, climbing, "b.parquet")))
    await shop.purge("orders")
    await shop.wait_out_the_hold()
    assert await shop.files() == ["b.parquet", "t2/a.parquet"]
    assert "4 of its files are outside its locations" in caplog.text


async def test_a_damaged_manifest_and_its_files_are_kept_and_raise_an_alarm(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    done(await shop.lake.create("orders", location=f"{shop.own}/t"))
    known, unknown = [await shop.put(f"t/data/{n}.parquet") for n in ("known", "unknown")]
    await shop.add("orders", entry(unknown), broken=True)
    await shop.add("orders", entry(known))
    alarms = shop.lake.house.ports.alarms.count
    await shop.purge("orders")
    with caplog.at_level(logging.ERROR):
        await shop.wait_out_the_hold()
    assert await shop.files() == ["t/data/unknown.parquet", "t/metadata/m1.avro"]
    assert shop.lake.house.ports.alarms.count == alarms + 1
    assert f"{shop.own}/t/metadata/m1.avro" in caplog.text
    assert done(await shop.lake.create("orders", location=f"{shop.own}/t")), (
        "the record is deleted, its location is free"
    )


async def test_unreadable_metadata_keeps_all_files(shop: Shop) -> None:
    big = {"p": "x" * iceberg_files.MAX_STORED_BYTES}
    made = done(await shop.lake.create("orders", location=f"{shop.own}/t", properties=big))
    await shop.put(made["metadata-location"].removeprefix(f"{shop.own}/"), b"{")
    await shop.put("t/data/a.parquet")
    shop.lake.house.ports.local.clear_caches()
    await shop.purge("orders")
    await shop.wait_out_the_hold()
    assert len(await shop.files()) == 2
    assert shop.lake.house.ports.alarms.count == 1


async def test_data_files_are_kept_if_gc_is_disabled(shop: Shop) -> None:
    await filled_table(shop)
    done(await shop.lake.commit("orders", set_property("gc.enabled", "false")))
    await shop.purge("orders")
    await shop.wait_out_the_hold()
    assert [path for path in await shop.files() if not path.startswith("t/data/")] == []
    assert len(await shop.files()) == 3


async def test_data_files_in_an_assigned_location_are_kept_if_gc_is_disabled(shop: Shop) -> None:
    made = done(await shop.lake.create("orders", properties={"gc.enabled": "false"}))["metadata"]
    await shop.storage.overwrite(f"{made['location']}/", "data/a.parquet", b"rows")
    await shop.purge("orders")
    await shop.wait_out_the_hold()
    assert [each.path for each in await shop.storage.list(f"{made['location']}/", "")] == ["data/a.parquet"]


class Failing(Stores):
    """A store that fails after some deletions, like a server that is killed."""

    def __init__(self, storage: Storage, deletions: int) -> None:
        super().__init__(local=storage)
        self._deletions = deletions

    async def delete_many(self, root: str, paths: Any) -> None:
        if not self._deletions:
            raise Unavailable("the store is unavailable")
        self._deletions -= 1
        await super().delete_many(root, paths)


async def test_a_purge_interrupted_at_any_step_is_completed_by_the_next(shop: Shop) -> None:
    for deletions in range(10):
        folder = f"t{deletions}"
        await filled_table(shop, "orders", folder)
        await shop.put(f"{folder}/theirs")
        await shop.purge("orders")
        working = shop.storage
        force_setattr(shop.lake.house.ports, "storage", Failing(working, deletions))
        await shop.wait_out_the_hold()
        force_setattr(shop.lake.house.ports, "storage", working)
        shop.lake.house.ports.local.clear_caches()
        await purge_due(shop.lake.house.ports)
        assert [path for path in await shop.files() if path.startswith(f"{folder}/")] == [f"{folder}/theirs"], deletions
        shop.snapshots = 0


async def test_creating_a_table_in_the_same_location_ends_the_hold(shop: Shop) -> None:
    await shop.put("t/theirs")
    for _ in range(2):
        await filled_table(shop)
        await shop.purge("orders")
        shop.snapshots = 0
    await shop.lake.ask("DELETE", to_space(*SPACE))  # dropping the namespace too must not change the owner
    await shop.lake.create_space(*SPACE)
    before = await shop.files()
    for overlapping in (shop.own, f"{shop.own}/t/inner"):
        refused(await shop.lake.create("orders", location=overlapping), 400, "BadRequestException", "a dropped table")
    assert await shop.files() == before
    last = done(await shop.lake.create("orders", location=f"{shop.own}/t"))["metadata-location"]
    assert sorted(await shop.files()) == [last.removeprefix(f"{shop.own}/"), "t/theirs"]


async def test_registering_a_table_during_its_hold_keeps_its_files(shop: Shop) -> None:
    await filled_table(shop)
    before, last = await shop.files(), done(await shop.lake.load("orders"))
    await shop.purge("orders")
    body = {"name": "back", "metadata-location": last["metadata-location"]}
    assert done(await shop.lake.ask("POST", f"{to_space(*SPACE)}/register", body))["metadata"] == last["metadata"]
    await shop.wait_out_the_hold()
    assert await shop.files() == before
    assert (await shop.lake.ask("DELETE", to_table("back"))).status_code == 204
    await shop.wait_out_the_hold()
    assert await shop.files() == before, "a registered table that is dropped without purge keeps its files"


async def test_a_volume_created_in_the_location_during_the_hold_keeps_the_files(shop: Shop) -> None:
    await filled_table(shop)
    before = await shop.files()
    await shop.purge("orders")
    volume = {"name": "v", "catalog_name": "lake", "schema_name": SPACE[0], "volume_type": "EXTERNAL"}
    body = {**volume, "storage_location": f"{shop.own}/t"}
    done(await shop.lake.house.console.http.post("/api/2.1/unity-catalog/volumes", json=body))
    await shop.wait_out_the_hold()
    assert await shop.files() == before


async def test_undropping_a_table_cancels_its_purge(shop: Shop) -> None:
    await filled_table(shop)
    before, table = await shop.files(), await shop.lake.metadata("orders")
    await shop.purge("orders")
    done(await shop.lake.house.console.post("/undrop", {"kind": "table", "id": table["table-uuid"]}))
    assert await shop.lake.metadata("orders") == table
    assert (await shop.lake.house.console.delete("/catalogs/lake", cascade=True)).status_code < 300
    await shop.wait_out_the_hold()
    assert await shop.files() == before


async def test_purging_a_managed_table_deletes_only_its_own_files_in_former_locations(shop: Shop) -> None:
    home = done(await shop.lake.create("orders"))["metadata"]["location"]
    done(await shop.lake.commit("orders", move(f"{shop.own}/t")))
    file = await shop.put("t/data/a.parquet")
    theirs = await shop.put("t/data/theirs.parquet")
    await shop.add("orders", entry(file))
    done(await shop.lake.commit("orders", move(home)))
    await shop.storage.overwrite(f"{home}/", "data/unlisted.parquet", b"x")
    assert (await shop.lake.house.console.delete("/catalogs/lake", cascade=True)).status_code < 300
    await shop.wait_out_the_hold()
    assert [f"{shop.own}/{path}" for path in await shop.files()] == [theirs]
    assert await shop.storage.list(f"{home}/", "") == (), "all files in an assigned location are deleted"


async def test_purging_a_moved_table_deletes_all_files_in_its_assigned_location(shop: Shop) -> None:
    home = done(await shop.lake.create("orders"))["metadata"]["location"]
    await shop.storage.overwrite(f"{home}/", "data/unlisted.parquet", b"x")
    done(await shop.lake.commit("orders", move(f"{shop.own}/t")))
    await shop.put("t/theirs")
    await shop.purge("orders")
    await shop.wait_out_the_hold()
    assert await shop.files() == ["t/theirs"]
    assert await shop.storage.read(f"{home}/", "data/unlisted.parquet", limit=MUCH) is None


async def test_a_dropped_managed_table_owns_its_location_until_the_hold_ends(shop: Shop) -> None:
    last = done(await shop.lake.create("orders"))["metadata-location"]
    await shop.purge("orders")
    body = {"name": "back", "metadata-location": last}
    refused(await shop.lake.ask("POST", f"{to_space(*SPACE)}/register", body), 400, "BadRequestException", "overlaps")
