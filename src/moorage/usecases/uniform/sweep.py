"""Deletes files of conversions that no reader needs: those of expired snapshots and of unrecorded conversions."""

from __future__ import annotations

import asyncio
from typing import Final

from moorage.core.securables import Securable
from moorage.formats.iceberg.avro import read_avro, reading
from moorage.formats.iceberg.documents import Document
from moorage.formats.iceberg.manifests import parse_paths
from moorage.usecases.formats import Projection
from moorage.usecases.iceberg.metadata_files import load_projected
from moorage.usecases.ports import Ports
from moorage.usecases.uniform.lines import FOLDER
from moorage.usecases.uniform.reading import ConvertedFiles

_SPARED_MS: Final = 60 * 60 * 1000
"""Younger files may belong to a conversion that is not recorded yet, or to a reader that loaded older metadata."""


async def sweep_conversions(ports: Ports, table: Securable, projection: Projection) -> int:
    """Delete what the newest conversion of a table does not refer to. Returns the number of deleted files."""
    root, horizon_ms = table.doc.location or "", ports.now_ms() - _SPARED_MS
    listed = await ports.storage.list(root, FOLDER)
    old = [root + file.path for file in listed if file.modified_ms < horizon_ms]
    if not old:
        return 0
    metadata = await load_projected(ports, table, projection)
    needed = await _needed(ConvertedFiles(ports, table), metadata.doc) | {metadata.location}
    unused = [path.removeprefix(root) for path in old if path not in needed]
    for path in unused:
        await ports.storage.delete(root, path)
    return len(unused)


async def _needed(files: ConvertedFiles, doc: Document) -> set[str]:
    """All files that the metadata refers to, except data files."""
    lists = [snapshot["manifest-list"] for snapshot in doc["snapshots"]]
    needed = {*lists, *(entry["metadata-file"] for entry in doc["metadata-log"])}
    manifests: dict[str, int] = {}
    for path in lists:
        manifests |= await asyncio.to_thread(_listed, await files.read(path), path)
    for path, content in manifests.items():
        if content:
            needed.update(await asyncio.to_thread(parse_paths, await files.read(path), path))
    return needed | manifests.keys()


def _listed(data: bytes, path: str) -> dict[str, int]:
    """The manifests of a list, and what they contain: 1 for deletion vectors."""
    with reading(f"the manifest list {path}"):
        return {record["manifest_path"]: record["content"] for record in read_avro(data).records}
