"""A ledger and a storage folder for each test, with a clock that the test advances."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from moorage.ledger.sqlite import SqliteLedger
from moorage.testing.builders import Clock
from tests.unit.chores.lakes import ClockedPorts, ports_on


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "managed"
    folder.mkdir()
    return folder


@pytest.fixture
async def ports(tmp_path: Path, folder: Path) -> AsyncIterator[ClockedPorts]:
    clock = Clock()
    ledger = await SqliteLedger.open(tmp_path / "ledger", clock_ms=clock)
    yield ports_on(ledger, folder, clock)
    await ledger.close()
