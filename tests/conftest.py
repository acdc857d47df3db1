"""What every test may ask for."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from moorage.testing.minio import MinioServer
from moorage.testing.postgres import PostgresServer
from tests.groups import pytest_collection_modifyitems  # noqa: F401 - a hook

_LONGEST_SOAK_SECONDS = 7200


def pytest_itemcollected(item: pytest.Item) -> None:
    """In `make soak` the limits that tests have for their short forms say nothing."""
    if os.environ.get("MOORAGE_SOAK"):
        item.add_marker(pytest.mark.timeout(_LONGEST_SOAK_SECONDS), append=False)


# The kits live in the package; without this their asserts would fail without telling why.
pytest.register_assert_rewrite("moorage.testing.ledger_kit", "moorage.testing.storage_kit")


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[PostgresServer]:
    """The run's PostgreSQL server, shared by all test processes: make databases in it, do not stop it."""
    own_folder: Path = tmp_path_factory.getbasetemp()
    in_worker = hasattr(request.config, "workerinput")
    with PostgresServer.shared(own_folder.parent if in_worker else own_folder) as server:
        yield server


@pytest.fixture
def database_url(postgres: PostgresServer, request: pytest.FixtureRequest) -> Iterator[str]:
    """A fresh, empty PostgreSQL database of this test's own."""
    url = postgres.new_database(request.node.name)
    yield url
    postgres.drop_database(url)


@pytest.fixture
def own_postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server of this test's own, which it may stop, kill and start."""
    with PostgresServer.create() as server:
        yield server


@pytest.fixture(scope="session")
def minio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MinioServer]:
    """A real S3 server: make buckets in it. Its tests belong to the group "s3", so that there is one."""
    with MinioServer(tmp_path_factory.mktemp("minio")) as server:
        yield server
