"""Manifests of a transaction, where its own readers find them."""

from __future__ import annotations

import tempfile
from contextlib import suppress
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
        line, _, name = version.manifest_path.rpartition("/_versions/")
        below = f"tree/{version.branch}/" if version.branch else ""
        options = self._storage_options or table.storage_options
        session = LanceFileSession(table.location, storage_options=options)
        with tempfile.TemporaryDirectory() as scratch:
            local = str(Path(scratch, name))
            session.download_file(f"{below}_versions/{name}", local)
            session.upload_file(local, below + _copy_of(name))
        self._made.append((session, below + _copy_of(name)))
        self._paths[version.manifest_path] = path = f"{line}/{_copy_of(name)}"
        return path

    def remove(self) -> None:
        """Whatever cannot be removed is in nobody's way."""
        for session, path in self._made:
            with suppress(OSError):
                session.delete_file(path)


def _copy_of(name: str) -> str:
    """A staged manifest is called like the final one, with something unique behind it."""
    final, _, unique = name.partition(".manifest-")
    return f"{_FOLDER}/{unique}/{final}.manifest"
