"""Manifests and manifest lists, read from storage and cached. They never change."""

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

MAX_FILE_BYTES: Final = 64 * 1024 * 1024
_CONCURRENT_READS: Final = 8

Parsed = Manifest | tuple[ManifestFile, ...]
FileKey = tuple[SecurableId, str]


def _memory_bytes(found: Parsed) -> int:
    """The approximate bytes of memory that a parsed file takes."""
    if not isinstance(found, Manifest):
        return 1_000 * (1 + len(found))
    columns = sum(len(file.stats.values or ()) for file in found.files)
    return 1_000 + 2_000 * len(found.files) + 250 * columns


_MANIFESTS: Final = CacheKind[FileKey, Parsed]("iceberg manifests", limit=128 * 1024 * 1024, weigh=_memory_bytes)
_READING: Final = CacheKind[FileKey, "asyncio.Task[Parsed]"]("iceberg manifests being read", limit=10_000)


class TableFiles(msgspec.Struct, frozen=True):
    """A table, and the locations that its files may be in: the current and the former ones."""

    table: SecurableId
    locations: tuple[str, ...]

    def locate(self, path: str) -> tuple[str, str]:
        """The location of a file, and its path inside that location.

        Metadata can name any file, and the server reads with its own credentials. So other locations are refused.
        """
        try:
            return locate_in(self.locations, path)
        except InvalidInput:
            raise _unplannable(f"{path!r} is outside the table's locations") from None


async def read_manifest_list(ports: Ports, source: TableFiles, snapshot: Document) -> tuple[ManifestFile, ...]:
    """The manifests of a snapshot."""
    path = snapshot.get("manifest-list")
    if path is None:  # format version 1 may list manifests in the metadata
        return tuple(ManifestFile(path=each, length=0, spec_id=None) for each in snapshot.get("manifests", ()))
    found = await _read_once(ports, source, path, lambda data: parse_manifest_list(data, path))
    if isinstance(found, Manifest):
        raise Damaged(f"{path} is a manifest, but the table names it as a manifest list", table=source.table)
    return found


async def read_manifests(
    ports: Ports, source: TableFiles, listed: Sequence[ManifestFile], specs: Mapping[int, Spec]
) -> list[Manifest]:
    """The manifests in the order of the list."""
    found: list[Manifest] = []
    for start in range(0, len(listed), _CONCURRENT_READS):
        some = listed[start : start + _CONCURRENT_READS]
        found += await asyncio.gather(*(_manifest(ports, source, each, specs) for each in some))
    return found


async def _manifest(ports: Ports, source: TableFiles, listed: ManifestFile, specs: Mapping[int, Spec]) -> Manifest:
    found = await _read_once(ports, source, listed.path, lambda data: parse_manifest(data, listed, specs))
    if not isinstance(found, Manifest):
        raise Damaged(f"{listed.path} is a manifest list, but the table names it as a manifest", table=source.table)
    return found


def uncached_bytes(ports: Ports, source: TableFiles, listed: Sequence[ManifestFile]) -> int:
    """The bytes of these manifests that are not cached and would be read from storage."""
    cached = ports.local.cache(_MANIFESTS)
    return sum(each.length for each in listed if (source.table, each.path) not in cached)


async def _read_once(ports: Ports, source: TableFiles, path: str, parse: Callable[[bytes], Parsed]) -> Parsed:
    """The cached file, or one read that concurrent requests share. Cancelling a request does not cancel the read."""
    key = (source.table, path)
    found = ports.local.cache(_MANIFESTS).get(key)
    if found is not None:
        return found
    reading = ports.local.cache(_READING)
    task = reading.get(key)
    if task is None:
        task = ports.local.start(_read(ports, source, path, parse))
        reading.put(key, task)
        task.add_done_callback(lambda done: _end_reading(ports, key, done))
    return await asyncio.shield(task)


def _end_reading(ports: Ports, key: FileKey, task: asyncio.Task[Parsed]) -> None:
    ports.local.cache(_READING).pop(key)
    if not task.cancelled():
        task.exception()  # retrieved, because asyncio logs it if every request was cancelled


async def _read(ports: Ports, source: TableFiles, path: str, parse: Callable[[bytes], Parsed]) -> Parsed:
    try:
        root, key = source.locate(path)
        data = await ports.storage.read(root, key, limit=MAX_FILE_BYTES)
        if data is None:
            raise Damaged(f"{path} is missing, but the table still needs it", table=source.table)
        # In a thread even if the file is small: its decompressed content may be large.
        found = await asyncio.to_thread(parse, data)
    except TooLarge as error:
        raise _unplannable(error.message) from error
    ports.local.cache(_MANIFESTS).put((source.table, path), found)
    return found


def _unplannable(reason: str) -> Unsupported:
    return Unsupported(f"{reason}; plan the scan in the client")
