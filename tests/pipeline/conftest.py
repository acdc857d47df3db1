"""One server and one worker with Spark for all tests of a process: starting Spark takes ten seconds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from moorage.client import Client
from moorage.testing.server import ServerProcess
from tests.pipeline.workers import spark_worker


@pytest.fixture(scope="session")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server with the catalog `lake`, the namespace `sea`, and a worker process."""
    folder = tmp_path_factory.mktemp("upkeep")
    with ServerProcess(folder / "data") as server, spark_worker(server.url, folder / "worker.log"):
        with Client(server.url) as client:
            client.catalogs.create("lake")
            client.namespaces.create("lake", ["sea"])
        yield server


@pytest.fixture
def moored(lake: ServerProcess) -> Iterator[Client]:
    """A client of that server."""
    with Client(lake.url) as client:
        yield client
