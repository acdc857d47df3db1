"""A catalog with authentication."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.api.control.guarded import Guarded, open_guarded


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[Guarded]:
    async with open_guarded(tmp_path / "data") as guarded:
        yield guarded
