"""Where victims live: a data folder, or a database."""

from pathlib import Path

import pytest


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A data folder or the URL of a fresh database: every test that asks for it runs on both."""
    if request.param == "sqlite":
        return str(tmp_path / "data")
    url: str = request.getfixturevalue("database_url")
    return url
