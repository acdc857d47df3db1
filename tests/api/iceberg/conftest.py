"""The catalog `lake` with one namespace."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import force_setattr

from moorage.storage.local import LocalStorage
from tests.api.house import House
from tests.api.iceberg.lake import SPACE, Lake


@pytest.fixture
async def lake(house: House, tmp_path: Path) -> Lake:
    await house.console.make("lake")
    lake = Lake(house, tmp_path / "data")
    assert (await lake.create_space(*SPACE)).status_code == 200
    return lake


@pytest.fixture
def own(lake: Lake, tmp_path: Path) -> str:
    """A folder in which clients may create tables."""
    folder = tmp_path / "own"
    folder.mkdir()
    force_setattr(lake.house.ports, "storage", LocalStorage(lake.managed, folder))
    return f"file://{folder}"
