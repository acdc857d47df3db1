"""A lake with one namespace."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.api.house import House
from tests.api.iceberg.lake import SPACE, Lake


@pytest.fixture
async def lake(house: House, tmp_path: Path) -> Lake:
    await house.console.make("lake")
    lake = Lake(house, tmp_path / "data")
    assert (await lake.create_space(*SPACE)).status_code == 200
    return lake
