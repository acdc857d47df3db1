"""Copies of staged manifests that make a transaction's own versions readable."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from lance.file import LanceFileSession
from lance_namespace import CreateTableVersionRequest, DescribeTableResponse

_FOLDER: Final = "_transactions/moorage"
"""Inside the table's folder, because a writer of the table may write there."""


class ReadableManifests:
    """Copies under names that pylance treats as final, outside `_versions`, so that other readers do not see them."""

    def __init__(self, storage_options: dict[str, str] | None = None) -> None:
        self._storage_options = storage_options
        self._paths: dict[str, str] = {}
        self._copies: list[tuple[LanceFileSession, str]] = []

    def path_of(self, version: CreateTableVersionRequest) -> str | None:
        """The path of its copy, relative to the root of the store like the manifest's own path."""
        return self._paths.get(version.manifest_path)

    def copy(self, version: CreateTableVersionRequest, table: DescribeTableResponse) -> str:
        line, below, name = _parts(version)
        session = self._session(table)
        with _fetched(session, version) as manifest:
            session.upload_file(str(manifest), below + _copy_of(name))
        self._copies.append((session, below + _copy_of(name)))
        self._paths[version.manifest_path] = path = f"{line}/{_copy_of(name)}"
        return path

    def mentions(
        self, pattern: re.Pattern[bytes], version: CreateTableVersionRequest, table: DescribeTableResponse
    ) -> bool:
        """Whether its manifest contains the pattern, for example the name of a table setting."""
        with _fetched(self._session(table), version) as manifest:
            return pattern.search(manifest.read_bytes()) is not None

    def _session(self, table: DescribeTableResponse) -> LanceFileSession:
        return LanceFileSession(table.location, storage_options=self._storage_options or table.storage_options)

    def remove(self) -> None:
        """Delete the copies. A copy that cannot be deleted does no harm."""
        for session, path in self._copies:
            with suppress(OSError):
                session.delete_file(path)


def _parts(version: CreateTableVersionRequest) -> tuple[str, str, str]:
    """The folder of its line in the store, the path of that folder in the table, and the name of its manifest."""
    line, _, name = version.manifest_path.rpartition("/_versions/")
    return line, f"tree/{version.branch}/" if version.branch else "", name


@contextmanager
def _fetched(session: LanceFileSession, version: CreateTableVersionRequest) -> Iterator[Path]:
    """Download its manifest into a temporary file."""
    _, below, name = _parts(version)
    with tempfile.TemporaryDirectory() as scratch:
        manifest = Path(scratch, name)
        session.download_file(f"{below}_versions/{name}", str(manifest))
        yield manifest


def _copy_of(name: str) -> str:
    """The path of the copy. A staged manifest has the final name followed by a unique suffix."""
    final, _, unique = name.partition(".manifest-")
    return f"{_FOLDER}/{unique}/{final}.manifest"
