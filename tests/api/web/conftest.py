"""A catalog with authentication, and a browser."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.api.control.guarded import Guarded, open_guarded
from tests.api.web.browser import Browser


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[Guarded]:
    async with open_guarded(tmp_path / "data") as guarded:
        yield guarded


@pytest.fixture
def browser(guarded: Guarded) -> Browser:
    return Browser(guarded.house.console.http)
