"""A real catalog, and a faulty proxy between it and the client."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from moorage.client import Client
from moorage.testing.server import ServerProcess
from tests.client.faulty_proxy import FaultyProxy


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
def proxy(catalog: ServerProcess) -> Iterator[FaultyProxy]:
    with FaultyProxy(int(catalog.url.rpartition(":")[2])) as proxy:
        yield proxy
