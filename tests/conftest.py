"""Fixtures for all tests."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from moorage.testing.minio import MinioServer
from moorage.testing.postgres import PostgresServer
from tests.groups import pytest_collection_modifyitems  # noqa: F401 - a hook

_MAX_SOAK_SECONDS = 7200


def pytest_itemcollected(item: pytest.Item) -> None:
    """`make soak` replaces the timeouts, because tests set them for their short versions."""
    if os.environ.get("MOORAGE_SOAK"):
        item.add_marker(pytest.mark.timeout(_MAX_SOAK_SECONDS), append=False)


# The kits are in the package: without this, their failed asserts would show no values.
pytest.register_assert_rewrite("moorage.testing.ledger_kit", "moorage.testing.storage_kit")


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[PostgresServer]:
    """The PostgreSQL server of the run, shared by all test processes. Create databases in it; do not stop it."""
    own_folder: Path = tmp_path_factory.getbasetemp()
    in_worker = hasattr(request.config, "workerinput")
    with PostgresServer.shared(own_folder.parent if in_worker else own_folder) as server:
        yield server


@pytest.fixture
def database_url(postgres: PostgresServer, request: pytest.FixtureRequest) -> Iterator[str]:
    """An empty PostgreSQL database for this test only."""
    url = postgres.new_database(request.node.name)
    yield url
    postgres.drop_database(url)


@pytest.fixture
def own_postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server for this test only, which it may stop, kill and start."""
    with PostgresServer.create() as server:
        yield server


@pytest.fixture(scope="session")
def minio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MinioServer]:
    """A real S3 server: create buckets in it. Its tests are in the xdist group "s3", so that only one is started."""
    with MinioServer(tmp_path_factory.mktemp("minio")) as server:
        yield server
