"""A real catalog, and a wire between it and the client that can be cut."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from moorage.client import Client
from moorage.testing.server import ServerProcess
from tests.client.bad_wire import BadWire


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    data: Path = tmp_path_factory.mktemp("client") / "data"
    with ServerProcess(data) as process:
        yield process


@pytest.fixture
def client(catalog: ServerProcess) -> Iterator[Client]:
    with Client(catalog.url) as client:
        yield client


@pytest.fixture
def wire(catalog: ServerProcess) -> Iterator[BadWire]:
    with BadWire(int(catalog.url.rpartition(":")[2])) as wire:
        yield wire
