"""Manifests and manifest lists: read from storage, and kept in memory, since they never change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from moorage.core.errors import Damaged, InvalidInput, TooLarge, Unsupported
from moorage.core.ids import SecurableId
from moorage.core.locations import locate_in
from moorage.formats.iceberg.documents import Document
from moorage.formats.iceberg.manifests import Manifest, ManifestFile, parse_manifest, parse_manifest_list
from moorage.formats.iceberg.specs import Spec
from moorage.usecases.local_state import CacheKind
from moorage.usecases.ports import Ports

LARGEST_FILE: Final = 64 * 1024 * 1024
_AT_ONCE: Final = 8

Parsed = Manifest | tuple[ManifestFile, ...]
FileKey = tuple[SecurableId, str]


def _weight(found: Parsed) -> int:
    """About the bytes of memory that it takes."""
    if not isinstance(found, Manifest):
        return 1_000 * (1 + len(found))
    columns = sum(len(file.stats.values or ()) for file in found.files)
    return 1_000 + 2_000 * len(found.files) + 250 * columns


_CACHED: Final = CacheKind[FileKey, Parsed]("iceberg manifests", limit=128 * 1024 * 1024, weigh=_weight)
_READING: Final = CacheKind[FileKey, "asyncio.Task[Parsed]"]("iceberg manifests being read", limit=10_000)


class Reach(msgspec.Struct, frozen=True):
    """A table, and the places that its files may lie in: where it is, and where it was."""

    table: SecurableId
    locations: tuple[str, ...]

    def to(self, path: str) -> tuple[str, str]:
        """The place of a file, and the way from there. Metadata can name any file, and we read with our own rights."""
        try:
            return locate_in(self.locations, path)
        except InvalidInput:
            raise _in_the_client(f"{path!r} lies outside of the table's location") from None


async def manifest_list(ports: Ports, reach: Reach, snapshot: Document) -> tuple[ManifestFile, ...]:
    """The manifests of a snapshot."""
    path = snapshot.get("manifest-list")
    if path is None:  # format version 1 may name them in the metadata
        return tuple(ManifestFile(path=each, length=0, spec_id=None) for each in snapshot.get("manifests", ()))
    found = await _once(ports, reach, path, lambda data: parse_manifest_list(data, path))
    if isinstance(found, Manifest):
        raise Damaged(f"{path} is a manifest, and the table names it as a list of them", table=reach.table)
    return found


async def manifests(
    ports: Ports, reach: Reach, listed: Sequence[ManifestFile], specs: Mapping[int, Spec]
) -> list[Manifest]:
    """The manifests in the order of the list."""
    found: list[Manifest] = []
    for start in range(0, len(listed), _AT_ONCE):
        some = listed[start : start + _AT_ONCE]
        found += await asyncio.gather(*(_manifest(ports, reach, each, specs) for each in some))
    return found


async def _manifest(ports: Ports, reach: Reach, listed: ManifestFile, specs: Mapping[int, Spec]) -> Manifest:
    found = await _once(ports, reach, listed.path, lambda data: parse_manifest(data, listed, specs))
    if not isinstance(found, Manifest):
        raise Damaged(f"{listed.path} is a manifest list, and the table names it as a manifest", table=reach.table)
    return found


def cold_bytes(ports: Ports, reach: Reach, listed: Sequence[ManifestFile]) -> int:
    """How much of this would have to be read from storage."""
    cached = ports.local.cache(_CACHED)
    return sum(each.length for each in listed if (reach.table, each.path) not in cached)


async def _once(ports: Ports, reach: Reach, path: str, parse: Callable[[bytes], Parsed]) -> Parsed:
    """What is cached, or one read for all requests that need it. A request that is cancelled does not stop it."""
    key = (reach.table, path)
    found = ports.local.cache(_CACHED).get(key)
    if found is not None:
        return found
    reading = ports.local.cache(_READING)
    task = reading.get(key)
    if task is None:
        task = ports.local.start(_read(ports, reach, path, parse))
        reading.put(key, task)
        task.add_done_callback(lambda done: _end_reading(ports, key, done))
    return await asyncio.shield(task)


def _end_reading(ports: Ports, key: FileKey, task: asyncio.Task[Parsed]) -> None:
    ports.local.cache(_READING).pop(key)
    if not task.cancelled():
        task.exception()  # retrieved here, or asyncio would report it if every request had been cancelled


async def _read(ports: Ports, reach: Reach, path: str, parse: Callable[[bytes], Parsed]) -> Parsed:
    try:
        root, key = reach.to(path)
        data = await ports.storage.read(root, key, limit=LARGEST_FILE)
        if data is None:
            raise Damaged(f"{path} is gone, and the table still needs it", table=reach.table)
        # However small it is: what is packed in it may be large.
        found = await asyncio.to_thread(parse, data)
    except TooLarge as error:
        raise _in_the_client(error.message) from error
    ports.local.cache(_CACHED).put((reach.table, path), found)
    return found


def _in_the_client(reason: str) -> Unsupported:
    return Unsupported(f"{reason}, and this server reads no further: plan the scan in the client")
