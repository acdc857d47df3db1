"""Conversions that clients state. The server compares them with the Delta table before Iceberg clients read them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from moorage.core.errors import Damaged, InvalidInput, TooLarge, Unsupported, VersionNotFound
from moorage.core.locations import locate_in
from moorage.core.securables import Securable
from moorage.formats.iceberg.documents import Document
from moorage.formats.iceberg.manifests import ManifestFile, parse_manifest_list
from moorage.usecases.delta.files import table_ref
from moorage.usecases.iceberg.metadata_files import read_projected
from moorage.usecases.local_state import CacheKind
from moorage.usecases.ports import Ports

if TYPE_CHECKING:
    from moorage.formats.delta.replay import LogState
    from moorage.uniform.agreement import ListedFile

_MAX_FILE_BYTES: Final = 256 * 1024 * 1024
_CONCURRENT_READS: Final = 8
_COMMIT: Final = "the commit"

_LISTED: Final = CacheKind[str, "tuple[ListedFile, ...]"](
    "files in manifests of clients", limit=64 * 1024 * 1024, weigh=lambda files: 400 * (1 + len(files))
)
"""By path. Most manifests of a conversion are those of the one before it."""


async def require_description(
    ports: Ports, root: str, doc: Document, version: int, *, data: bytes, table: Securable | None
) -> None:
    """Raise InvalidInput if Iceberg metadata does not describe the next version of a table.

    `data` is the commit of that version, and `table` the table before it; None for the first version.
    """
    with _comparing():
        before = None if table is None else await _state_at(ports, table, version - 1)
        await _compare(ports, root, doc, await asyncio.to_thread(_after, before, version, data, root))


async def is_description(ports: Ports, table: Securable, location: str, version: int) -> bool:
    """Whether there is Iceberg metadata at a location that describes this version of the table."""
    root = table.doc.location or ""
    try:
        metadata = await read_projected(ports, root, location, version)
        with _comparing():
            await _compare(ports, root, metadata.doc, await _state_at(ports, table, version))
    except (InvalidInput, VersionNotFound):
        return False
    return True


@contextmanager
def _comparing() -> Iterator[None]:
    try:
        yield
    except (Damaged, TooLarge, Unsupported, VersionNotFound) as error:
        raise InvalidInput(f"it cannot be compared with the table: {error.message}") from None


async def _state_at(ports: Ports, table: Securable, version: int) -> LogState:
    return (await ports.snapshots.at(await table_ref(ports, table), version)).state


def _after(before: LogState | None, version: int, data: bytes, root: str) -> LogState:
    from moorage.snapshots.states import Read, state_after

    return state_after(before, [Read(version, data, _COMMIT)], root)


async def _compare(ports: Ports, root: str, doc: Document, state: LogState) -> None:
    listed: dict[int, list[ListedFile]] = {}
    manifests = await _manifests(ports, root, doc)
    for start in range(0, len(manifests), _CONCURRENT_READS):
        some = manifests[start : start + _CONCURRENT_READS]
        found = await asyncio.gather(*(_files(ports, root, manifest) for manifest in some))
        for manifest, files in zip(some, found, strict=True):
            listed.setdefault(manifest.spec_id or 0, []).extend(files)
    await asyncio.to_thread(_require_agreement, root, doc, state, listed)


def _require_agreement(root: str, doc: Document, state: LogState, listed: dict[int, list[ListedFile]]) -> None:
    from moorage.uniform.agreement import require_agreement
    from moorage.uniform.tables import Table

    if state.protocol is None or state.metadata is None:
        raise InvalidInput("the commit has no protocol or no metaData")
    table = Table(id="", root=root, protocol=state.protocol, metadata=state.metadata)
    require_agreement(doc, listed, table, state.files())


async def _manifests(ports: Ports, root: str, doc: Document) -> tuple[ManifestFile, ...]:
    """The manifests of the snapshot that readers read by default. Empty without one."""
    current = doc.get("current-snapshot-id")
    snapshot = next((each for each in doc["snapshots"] if each["snapshot-id"] == current), None)
    if snapshot is None:
        return ()
    path = snapshot["manifest-list"]
    data = await _read(ports, root, path)
    return await asyncio.to_thread(parse_manifest_list, data, path)


async def _files(ports: Ports, root: str, manifest: ManifestFile) -> tuple[ListedFile, ...]:
    from moorage.uniform.agreement import live_files

    cached = ports.local.cache(_LISTED)
    found = cached.get(manifest.path)
    if found is None:
        data = await _read(ports, root, manifest.path)
        found = await asyncio.to_thread(live_files, data, manifest.path)
        cached.put(manifest.path, found)
    return found


async def _read(ports: Ports, root: str, path: str) -> bytes:
    _, below = locate_in((root,), path)
    data = await ports.storage.read(root, below, limit=_MAX_FILE_BYTES)
    if data is None:
        raise InvalidInput(f"it refers to {path}, which does not exist")
    return data
