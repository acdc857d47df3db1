"""DuckDB with extensions from PyPI: nothing is downloaded while tests run."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb


@contextmanager
def duck(*extensions: str) -> Iterator[Any]:
    with connection(*extensions) as db:
        yield db


def connection(*extensions: str) -> Any:
    db = duckdb.connect(config={"autoinstall_known_extensions": "false"})
    for extension in extensions:
        db.execute(f"LOAD '{_file_of(extension)}'")
    return db


def install(home: Path) -> None:
    """Put the extensions where DuckDB looks for the installed extensions of a user with this home."""
    with duckdb.connect() as db:
        ((version, platform),) = db.execute(
            "SELECT library_version, p.platform FROM pragma_version(), pragma_platform() p"
        ).fetchall()
    folder = home / ".duckdb" / "extensions" / version / platform
    folder.mkdir(parents=True)
    for extension in ("avro", "httpfs", "iceberg"):
        (folder / f"{extension}.duckdb_extension").symlink_to(_file_of(extension))


def _file_of(extension: str) -> Path:
    (folder,) = importlib.import_module(f"duckdb_extension_{extension}").__path__
    return next(Path(folder).rglob("*.duckdb_extension"))
