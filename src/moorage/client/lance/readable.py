"""Manifests of a transaction, where its own readers find them."""

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
"""In the table's own folder, where whoever writes to the table may write."""


class ReadableManifests:
    """Copies under names that pylance takes for final, outside of `_versions`, where any reader would see them."""

    def __init__(self, storage_options: dict[str, str] | None = None) -> None:
        self._storage_options = storage_options
        self._paths: dict[str, str] = {}
        self._made: list[tuple[LanceFileSession, str]] = []

    def path_of(self, version: CreateTableVersionRequest) -> str | None:
        """Where its copy lies, counted from the root of the store like the manifest's own path."""
        return self._paths.get(version.manifest_path)

    def copy(self, version: CreateTableVersionRequest, table: DescribeTableResponse) -> str:
        line, below, name = _parts(version)
        session = self._session(table)
        with _fetched(session, version) as manifest:
            session.upload_file(str(manifest), below + _copy_of(name))
        self._made.append((session, below + _copy_of(name)))
        self._paths[version.manifest_path] = path = f"{line}/{_copy_of(name)}"
        return path

    def mentions(
        self, words: re.Pattern[bytes], version: CreateTableVersionRequest, table: DescribeTableResponse
    ) -> bool:
        """Whether something is written in its manifest, such as the name of a setting of the table."""
        with _fetched(self._session(table), version) as manifest:
            return words.search(manifest.read_bytes()) is not None

    def _session(self, table: DescribeTableResponse) -> LanceFileSession:
        return LanceFileSession(table.location, storage_options=self._storage_options or table.storage_options)

    def remove(self) -> None:
        """Whatever cannot be removed is in nobody's way."""
        for session, path in self._made:
            with suppress(OSError):
                session.delete_file(path)


def _parts(version: CreateTableVersionRequest) -> tuple[str, str, str]:
    """The folder of its line in the store, the way to that in the table, and the name of its manifest."""
    line, _, name = version.manifest_path.rpartition("/_versions/")
    return line, f"tree/{version.branch}/" if version.branch else "", name


@contextmanager
def _fetched(session: LanceFileSession, version: CreateTableVersionRequest) -> Iterator[Path]:
    """Its manifest in a file of our own."""
    _, below, name = _parts(version)
    with tempfile.TemporaryDirectory() as scratch:
        manifest = Path(scratch, name)
        session.download_file(f"{below}_versions/{name}", str(manifest))
        yield manifest


def _copy_of(name: str) -> str:
    """A staged manifest is called like the final one, with something unique behind it."""
    final, _, unique = name.partition(".manifest-")
    return f"{_FOLDER}/{unique}/{final}.manifest"
