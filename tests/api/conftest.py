"""The catalog in process for most tests, and real servers for those that need one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from moorage.testing.server import ServerProcess
from tests.api.collector import Collector
from tests.api.house import Console, House, console_at, open_house


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with open_house(tmp_path / "data") as house:
        yield house


@pytest.fixture
def console(house: House) -> Console:
    return house.console


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    """A server for this test alone, on SQLite."""
    with ServerProcess(tmp_path / "data") as server:
        yield server


@pytest.fixture
async def remote(server: ServerProcess) -> AsyncIterator[Console]:
    """The console of the server process."""
    async with console_at(server.url) as console:
        yield console


@pytest.fixture
def collector() -> Iterator[Collector]:
    started = Collector()
    yield started
    started.stop()
