"""A catalog with one schema, and a client of each API family."""

from __future__ import annotations

import pytest

from tests.api.delta.delta_client import DeltaClient
from tests.api.house import House


@pytest.fixture
async def spec(house: House) -> DeltaClient:
    """A client of the specification's API, with an empty `lake.sea`."""
    client = DeltaClient(house.console.http, "spec")
    await client.furnish()
    return client


@pytest.fixture
def v1(spec: DeltaClient) -> DeltaClient:
    return DeltaClient(spec.http, "v1")


@pytest.fixture(params=["spec", "preview", "v1"])
def client(request: pytest.FixtureRequest, spec: DeltaClient) -> DeltaClient:
    """A client of each API family: the test must pass for all of them."""
    return DeltaClient(spec.http, request.param)
