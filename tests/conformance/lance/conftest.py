"""One server for all tests of a process. Each test creates its own tables."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from moorage.testing.server import ServerProcess
from tests.conformance.lance.lake import Lake


@pytest.fixture(scope="session")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with ServerProcess(tmp_path_factory.mktemp("lance") / "data") as server:
        yield Lake(server.url)
