"""Tables that move: a table owns its new location and keeps its former ones."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from moorage.core.securables import Kind
from moorage.usecases.catalog.addresses import Address, find_chain
from moorage.usecases.upkeep.purge import purge_due
from tests.api.iceberg.lake import PERSISTED, Lake, refused, set_property, to_table
from tests.api.iceberg.planning import data, planned_table
from tests.api.iceberg.test_commits import TIDY, change, transact
from tests.api.iceberg.test_tables import CREATE, DAYS_8_MS, building, stage
from tests.api.iceberg.test_views import create as create_view
from tests.api.iceberg.test_views import replace as replace_view


def move(location: str) -> dict[str, Any]:
    return {"action": "set-location", "location": location}


def files_in(location: str) -> list[Path]:
    return [*Path(location.removeprefix("file://")).rglob("*.json")]


async def is_managed(lake: Lake, name: str) -> bool:
    table = (await find_chain(lake.house.ledger, Address(Kind.TABLE, ("lake", "sales", name)))).chain[-1].doc.table
    assert table is not None
    return table.managed


async def test_a_moved_table_owns_its_new_and_its_former_location(lake: Lake, own: str) -> None:
    first = (await lake.create("orders")).json()["metadata"]["location"]
    moved = (await lake.commit("orders", move(f"{own}/t"))).json()
    assert moved["metadata-location"].startswith(f"{own}/t/metadata/00001-")
    assert not await is_managed(lake, "orders")
    for occupied in (f"{own}/t", f"{own}/t/deeper", own):
        refused(await lake.create("other", location=occupied), 400, "BadRequestException", "overlaps")
    await lake.create("third")
    for occupied in (f"{own}/t", f"{own}/t/deeper"):
        refused(await lake.commit("third", move(occupied)), 400, "BadRequestException", "overlaps")
    back = (await lake.commit("orders", move(first))).json()
    assert back["metadata-location"].startswith(f"{first}/metadata/00002-")
    assert await is_managed(lake, "orders")
    refused(await lake.create("other", location=f"{own}/t"), 400, "BadRequestException", "overlaps")
    assert (await lake.commit("orders", move(f"{own}/t/deeper"))).status_code == 200


@pytest.mark.parametrize("purge", [True, False])
async def test_purging_a_moved_table_deletes_its_files_in_all_locations(lake: Lake, own: str, *, purge: bool) -> None:
    first = (await lake.create("orders")).json()["metadata"]["location"]
    for folder in ("t", "u", "t"):
        assert (await lake.commit("orders", move(f"{own}/{folder}"))).status_code == 200
    await lake.ask("DELETE", to_table("orders"), purgeRequested=purge)
    lake.house.clock.advance(DAYS_8_MS)
    await purge_due(lake.house.ports)
    folders = [Path(location.removeprefix("file://")) for location in (first, f"{own}/t", f"{own}/u")]
    assert [folder.exists() for folder in folders] == [not purge] * 3


async def test_a_table_dropped_during_a_move_leaves_no_files(lake: Lake, own: str) -> None:
    outcomes = set()
    for n in range(12):
        name = f"t{n}"
        await lake.create(name)
        requests = [lake.commit(name, move(f"{own}/{n}")), lake.ask("DELETE", to_table(name), purgeRequested=True)]
        moved, dropped = await asyncio.gather(*requests)
        outcomes.add((moved.status_code, dropped.status_code))
    assert outcomes <= {(200, 204), (404, 204)}
    lake.house.clock.advance(DAYS_8_MS)
    await purge_due(lake.house.ports)
    assert lake.metadata_files() == set()
    assert files_in(own) == []


@pytest.mark.parametrize("path", ["tables/x", "tables", ""])
async def test_a_table_cannot_move_into_the_catalogs_own_storage(lake: Lake, own: str, path: str) -> None:
    root = (await lake.create("orders")).json()["metadata"]["location"].partition("tables/")[0]
    refused(await lake.commit("orders", move(f"{root}{path}")), 400, "BadRequestException", "catalog's own storage")
    refused(await lake.commit("orders", move("file:///etc/x")), 400, "BadRequestException", "location")
    assert len(lake.metadata_files()) == 1


async def test_a_transaction_moves_and_creates_tables_but_not_two_in_one_location(lake: Lake, own: str) -> None:
    await lake.create("a")
    await lake.create("b")
    staged = await stage(lake, "c")
    made = await transact(
        lake,
        change("a", move(f"{own}/a")),
        change("b", set_property("x")),
        change("c", *building(staged), move(f"{own}/c"), requires=CREATE),
    )
    assert made.status_code == 204, made.text
    assert [(await lake.metadata(name))["location"] for name in "ac"] == [f"{own}/a", f"{own}/c"]
    twice = await transact(lake, change("a", move(f"{own}/x")), change("b", move(f"{own}/x/y")))
    refused(twice, 400, "BadRequestException", "overlaps")
    taken = await transact(lake, change("a", set_property("y")), change("b", move(f"{own}/c/deep")))
    refused(taken, 400, "BadRequestException", "overlaps")
    assert (await lake.metadata("a"))["properties"] == PERSISTED


async def test_a_moved_view_owns_its_new_location(lake: Lake, own: str) -> None:
    await create_view(lake, "v")
    moved = await replace_view(lake, "v", move(f"{own}/v"))
    assert moved.status_code == 200, moved.text
    refused(await lake.create("other", location=f"{own}/v/t"), 400, "BadRequestException", "overlaps")


async def test_scans_use_manifests_from_before_and_after_a_move(lake: Lake, own: str) -> None:
    table = await planned_table(lake)
    await table.commit(table.line(data("old.parquet", ids=(1, 5))))
    for folder in ("t", "u"):
        table.metadata = (await lake.commit("orders", move(f"{own}/{folder}"))).json()["metadata"]
        await table.commit(table.line(data(f"{folder}.parquet", ids=(1, 5))))
    assert await table.files() == ["old.parquet", "t.parquet", "u.parquet"]
    assert await table.files(snapshot_id=1) == ["old.parquet"]
    await table.commit(manifest_list_at=f"{own}/elsewhere/snap.avro")
    refused(await table.plan(), 406, "UnsupportedOperationException", "outside the table's locations")


async def test_old_metadata_files_in_former_locations_are_deleted(lake: Lake, own: str) -> None:
    await lake.create("orders", properties=TIDY)
    for n in range(3):
        await lake.commit("orders", set_property("n", str(n)))
    assert len(lake.metadata_files()) == 3
    await lake.commit("orders", move(f"{own}/t"))
    for n in range(4):
        await lake.commit("orders", set_property("n", str(n)))
    assert lake.metadata_files() == set()
    assert (await lake.load("orders")).status_code == 200


async def test_an_undropped_managed_table_is_managed_again(lake: Lake) -> None:
    first = (await lake.create("orders")).json()["metadata"]
    await lake.ask("DELETE", to_table("orders"))
    back = await lake.house.console.post("/undrop", {"kind": "table", "id": first["table-uuid"]})
    assert back.status_code == 200, back.text
    assert await is_managed(lake, "orders")
    await lake.ask("DELETE", to_table("orders"), purgeRequested=True)
    await purge_due(lake.house.ports)
    assert len(lake.metadata_files()) == 1
    lake.house.clock.advance(DAYS_8_MS)
    await purge_due(lake.house.ports)
    assert lake.metadata_files() == set()
