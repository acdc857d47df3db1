"""How the server is composed from its settings."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.api.house import done, open_house
from tests.api.iceberg.lake import SPACE, Lake


@pytest.fixture
def linked(tmp_path: Path) -> Path:
    """A data folder with its managed storage on another disk."""
    (tmp_path / "disk").mkdir()
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "managed").symlink_to(tmp_path / "disk")
    return tmp_path / "data"


async def test_managed_storage_may_be_a_link_to_another_disk(linked: Path) -> None:
    async with open_house(linked) as house:
        root = f"{house.ports.roots.managed}t/"
        assert await house.ports.storage.put_new(root, "a", b"x")
        assert await house.ports.storage.read(root, "a", limit=10) == b"x"
    assert os.listdir(linked.parent / "disk" / "t") == ["a"]


async def test_tables_are_served_from_a_data_folder_that_was_moved_behind_a_link(tmp_path: Path) -> None:
    data, moved = tmp_path / "data", tmp_path / "larger" / "data"
    async with open_house(data) as house:
        await house.console.make("lake")
        lake = Lake(house, data)
        await lake.create_space(*SPACE)
        before = done(await lake.create("orders"))["metadata-location"]
    moved.parent.mkdir()
    data.rename(moved)
    data.symlink_to(moved)
    async with open_house(data) as house:
        lake = Lake(house, data)
        assert done(await lake.load("orders"))["metadata-location"] == before
        done(await lake.commit("orders", {"action": "set-properties", "updates": {"moved": "yes"}}))
        for ours in (data, moved):  # both names are of the catalog's own storage
            taken = await lake.create("mine", location=f"file://{ours}/managed/tables/of-another-table")
            assert "is inside or around the catalog's own storage" in taken.text
    assert len(list(moved.rglob("*.metadata.json"))) == 2


async def test_an_external_folder_may_be_reached_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "lakes").symlink_to(tmp_path / "disk")
    async with open_house(tmp_path / "data", external_folder=tmp_path / "lakes") as house:
        for spelled in ("lakes", "disk"):
            root = f"file://{tmp_path / spelled}/t/"
            assert await house.ports.storage.put_new(root, spelled, b"x")
            assert await house.ports.storage.size(root, "lakes") == 1
