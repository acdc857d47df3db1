"""A lake with a catalog and a namespace, seen by Lance's clients."""

from __future__ import annotations

import pytest

from tests.api.house import House
from tests.api.lance.lake import LanceClient


@pytest.fixture
async def lake(house: House) -> LanceClient:
    """`lake` with `lake$sea`, both empty."""
    await house.console.make("lake")
    await house.console.make("lake", "sea")
    return LanceClient(house.console.http)
