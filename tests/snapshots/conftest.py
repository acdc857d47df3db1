"""The folder of a table to write a log to, and a reader with an empty cache."""

from __future__ import annotations

from pathlib import Path

import pytest

from moorage.snapshots.snapshots import Snapshots
from moorage.storage.local import LocalStorage
from tests.snapshots.log_builder import LogBuilder


@pytest.fixture
def log(tmp_path: Path) -> LogBuilder:
    return LogBuilder(tmp_path / "table")


@pytest.fixture
def snapshots(tmp_path: Path) -> Snapshots:
    return Snapshots(LocalStorage(tmp_path))
