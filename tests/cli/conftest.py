"""The `moorage` command as a user runs it, and a catalog to run it against."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from moorage.client import Client
from moorage.testing.server import COMMAND, ServerProcess, clean_environment


class Moorage(Protocol):
    def __call__(self, *args: object, **environment: str) -> subprocess.CompletedProcess[str]: ...


@pytest.fixture
def moorage() -> Moorage:
    """Run `moorage …` and wait until it exits."""

    def run(*args: object, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*COMMAND, *map(str, args)],
            env=clean_environment(**environment),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path / "data") as process:
        yield process


@pytest.fixture
def client(catalog: ServerProcess) -> Iterator[Client]:
    with Client(catalog.url) as client:
        yield client
