"""How the server puts itself together from its settings."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.api.house import open_house


@pytest.fixture
def linked(tmp_path: Path) -> Path:
    """A data folder whose managed storage an operator has put on another disk."""
    (tmp_path / "disk").mkdir()
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "managed").symlink_to(tmp_path / "disk")
    return tmp_path / "data"


async def test_managed_storage_may_be_a_link_to_another_disk(linked: Path) -> None:
    async with open_house(linked) as house:
        root = f"{house.ports.managed_root}t/"
        assert await house.ports.storage.put_new(root, "a", b"x")
        assert await house.ports.storage.read(root, "a", limit=10) == b"x"
    assert os.listdir(linked.parent / "disk" / "t") == ["a"]
