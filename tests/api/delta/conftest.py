"""A lake with one schema, and a client of each family."""

from __future__ import annotations

import pytest

from tests.api.delta.delta_client import DeltaClient
from tests.api.house import House


@pytest.fixture
async def spec(house: House) -> DeltaClient:
    """The specification's own family, in an empty `lake.sea`."""
    client = DeltaClient(house.console.http, "spec")
    await client.furnish()
    return client


@pytest.fixture
def v1(spec: DeltaClient) -> DeltaClient:
    return DeltaClient(spec.http, "v1")


@pytest.fixture(params=["spec", "preview", "v1"])
def client(request: pytest.FixtureRequest, spec: DeltaClient) -> DeltaClient:
    """Each family in turn: what holds for one must hold for all."""
    return DeltaClient(spec.http, request.param)
