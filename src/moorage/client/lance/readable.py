"""Manifests of a transaction, where its own readers find them."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final

from lance.file import LanceFileSession
from lance_namespace import CreateTableVersionRequest, DescribeTableResponse

_FOLDER: Final = "_transactions/moorage"
"""In the table's own folder, where whoever writes to the table may write."""


class ReadableManifests:
    """Copies under names that pylance takes for final, outside of `_versions`, where any reader would see them."""

    def __init__(self) -> None:
        self._copies: dict[str, tuple[LanceFileSession, str]] = {}

    def path_of(self, version: CreateTableVersionRequest, table: DescribeTableResponse) -> str:
        """The path of the copy, counted from the root of the store like the manifest's own."""
        folder, _, name = version.manifest_path.rpartition("/_versions/")
        final, _, unique = name.partition(".manifest-")
        copy = f"{_FOLDER}/{unique}/{final}.manifest"
        line = f"tree/{version.branch}/" if version.branch else ""
        if version.manifest_path not in self._copies:
            session = LanceFileSession(table.location, storage_options=table.storage_options)
            with tempfile.TemporaryDirectory() as scratch:
                local = Path(scratch, "manifest")
                session.download_file(f"{line}_versions/{name}", str(local))
                session.upload_file(str(local), line + copy)
            self._copies[version.manifest_path] = session, line + copy
        return f"{folder}/{copy}"

    def remove(self) -> None:
        for session, path in self._copies.values():
            session.delete_file(path)
        self._copies.clear()
