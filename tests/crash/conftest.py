"""Where victims open their ledger: a data folder, or a database."""

from pathlib import Path

import pytest


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A data folder or the URL of a new database. Every test that uses it runs with both."""
    if request.param == "sqlite":
        return str(tmp_path / "data")
    url: str = request.getfixturevalue("database_url")
    return url
