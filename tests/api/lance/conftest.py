"""A catalog and a namespace for tests of the Lance API."""

from __future__ import annotations

import pytest

from tests.api.house import House
from tests.api.lance.lake import LanceClient


@pytest.fixture
async def lake(house: House) -> LanceClient:
    """A client of a server that has the empty namespaces `lake` and `lake$sea`."""
    await house.console.make("lake")
    await house.console.make("lake", "sea")
    return LanceClient(house.console.http)
