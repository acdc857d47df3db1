"""Stores and backups for tests of ledger transfers."""

from pathlib import Path

import pytest

from tests.transfer.stores import NewStore, Store, fill


@pytest.fixture
def new_store(tmp_path: Path, request: pytest.FixtureRequest) -> NewStore:
    """Creates empty stores. A database is created only for a test that needs one."""

    def new(kind: str) -> Store:
        if kind == "sqlite":
            folder = Path(request.getfixturevalue("tmp_path_factory").mktemp("store"))
            return Store(kind, folder, "")
        postgres = request.getfixturevalue("postgres")
        url = postgres.new_database("transfer")
        request.addfinalizer(lambda: postgres.drop_database(url))
        return Store(kind, tmp_path, url)

    return new


@pytest.fixture
async def backup(new_store: NewStore, tmp_path: Path) -> Path:
    old = new_store("sqlite")
    async with old.ledger() as ledger:
        await fill(ledger)
    await old.back_up(tmp_path / "good.db")
    return tmp_path / "good.db"
