"""DuckDB with the extensions that came from PyPI: nothing is downloaded while tests run."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb


@contextmanager
def duck(*extensions: str) -> Iterator[Any]:
    with duckdb.connect(config={"autoinstall_known_extensions": "false"}) as db:
        for extension in extensions:
            db.execute(f"LOAD '{_file_of(extension)}'")
        yield db


def _file_of(extension: str) -> Path:
    (folder,) = importlib.import_module(f"duckdb_extension_{extension}").__path__
    return next(Path(folder).rglob("*.duckdb_extension"))
