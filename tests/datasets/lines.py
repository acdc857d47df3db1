"""A table whose versions are in a dictionary, for tests of the worker pool without a catalog."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa

from moorage.core.errors import VersionNotFound, VersionTaken
from moorage.datasets.messages import Manifest, StagedManifest


class Lines:
    """Versions as the catalog stores them: put if absent."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str | None, int], Manifest] = {}

    async def newest(self, branch: str | None) -> Manifest | None:
        versions = [version for line, version in self.kept if line == branch]
        return self.kept[branch, max(versions)] if versions else None

    async def at(self, branch: str | None, version: int) -> Manifest:
        if (branch, version) not in self.kept:
            raise VersionNotFound(f"there is no version {version}", field="version")
        return self.kept[branch, version]

    async def add(self, staged: StagedManifest) -> Manifest:
        if (staged.branch, staged.version) in self.kept:
            raise VersionTaken(f"version {staged.version} is taken")
        made = Manifest(version=staged.version, manifest_path=staged.manifest_path, manifest_size=staged.manifest_size)
        self.kept[staged.branch, staged.version] = made
        return made


def stream_of(columns: dict[str, Any]) -> bytes:
    """Columns as an Arrow IPC stream."""
    table, sink = pa.table(columns), io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()
