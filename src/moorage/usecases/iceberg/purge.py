"""Deletion of the files of a purged Iceberg table.

In a location that the catalog assigned, all files are deleted. A location that the owner chose may contain other files:
there only files that the metadata names are deleted, and only inside the table's own locations. A file is deleted
before the file that names it, so a retry after a crash finds the rest.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from itertools import islice
from typing import Final, TypeVar

from moorage.core.errors import Damaged, InvalidInput, TooLarge
from moorage.core.locations import is_assigned, normalize_location
from moorage.core.securables import MAIN, Securable
from moorage.formats.iceberg.manifests import parse_manifest_list, parse_paths
from moorage.usecases.iceberg.manifests import MAX_FILE_BYTES
from moorage.usecases.iceberg.metadata_files import Metadata, load_metadata
from moorage.usecases.ports import Ports

log = logging.getLogger(__name__)

_CONCURRENT_READS: Final = 4
_DELETE_BATCH: Final = 1_000
_VERSION_BATCH: Final = 1_000
_UNREADABLE: Final = (Damaged, InvalidInput, TooLarge)

T = TypeVar("T")


async def delete_files_of(ports: Ports, table: Securable) -> None:
    """Delete the files of a purged table. After a failure of the store, the next attempt deletes the rest."""
    owned = table.owned_locations
    assigned = [each for each in owned if is_assigned(ports.roots, each, table.id) and not _shares_files(table)]
    if len(assigned) < len(owned):
        chain = (await ports.ledger.lineage(table.id)).chain
        if chain:  # empty if another server has purged the table
            await _FileRemoval(ports, chain[-1]).run()
    for location in assigned:
        await ports.storage.delete_all(location)


def _shares_files(table: Securable) -> bool:
    """Whether the owner states that other tables may need its data files. Then only its metadata is deleted."""
    return table.doc.properties.get("gc.enabled", "").lower() == "false"


def _checksum_file_of(key: str) -> str:
    """The checksum file that Hadoop writes for each file on local disk."""
    folder, slash, name = key.rpartition("/")
    return f"{folder}{slash}.{name}.crc"


class _FileRemoval:
    """Deletes the files that the metadata of one table names, the metadata file last."""

    def __init__(self, ports: Ports, table: Securable) -> None:
        self._ports = ports
        self._table = table
        self._missing = 0
        self._outside = 0
        self._damaged: dict[str, str] = {}
        """By path, why a file that names others cannot be read. Neither it nor the files that it names are deleted."""

    async def run(self) -> None:
        try:
            metadata = await load_metadata(self._ports, self._table)
        except _UNREADABLE as error:
            self._damaged["its metadata"] = error.message
        else:
            await self._delete_below(metadata)
        self._report()

    async def _delete_below(self, metadata: Metadata) -> None:
        doc = metadata.doc
        lists = {each["manifest-list"] for each in doc["snapshots"] if "manifest-list" in each}
        manifests = {path for each in doc["snapshots"] for path in each.get("manifests", ())}  # of format version 1
        async for listed in self._read(lists, parse_manifest_list):
            manifests.update(each.path for each in listed)
        if not _shares_files(self._table):
            async for files in self._read(manifests, parse_paths):
                await self._delete(files)
        await self._delete(manifests - self._damaged.keys())
        await self._delete(lists - self._damaged.keys())
        for kind in ("statistics", "partition-statistics"):
            await self._delete(each["statistics-path"] for each in doc.get(kind, ()))
        await self._delete(each["metadata-file"] for each in doc["metadata-log"])
        async for written in self._metadata_files():
            await self._delete(path for path in written if path != metadata.location)
        await self._delete((metadata.location,))  # last: without it no retry could find the other files

    async def _metadata_files(self) -> AsyncIterator[list[str]]:
        """The metadata files of all versions: the log in the metadata omits older ones."""
        first = 0
        while some := await self._ports.ledger.versions(self._table.id, MAIN, first=first, limit=_VERSION_BATCH):
            yield [version.file for version in some]
            first = some[-1].version + 1

    async def _read(self, paths: Collection[str], parse: Callable[[bytes, str], T]) -> AsyncIterator[T]:
        """The parsed files, read a few at a time. Files that cannot be read are recorded in `_damaged`."""
        waiting = iter(paths)
        while some := list(islice(waiting, _CONCURRENT_READS)):
            for found in await asyncio.gather(*(self._read_one(path, parse) for path in some)):
                if found is not None:
                    yield found

    async def _read_one(self, path: str, parse: Callable[[bytes, str], T]) -> T | None:
        where = self._locate(path)
        if where is None:
            return None  # counted when it is to be deleted
        try:
            data = await self._ports.storage.read(*where, limit=MAX_FILE_BYTES)
            if data is not None:
                return await asyncio.to_thread(parse, data, path)
            self._missing += 1
        except _UNREADABLE as error:
            self._damaged[path] = error.message
        return None

    async def _delete(self, paths: Iterable[str]) -> None:
        keys = defaultdict[str, list[str]](list)
        for path in paths:
            where = self._locate(path)
            if where is None:
                self._outside += 1
                continue
            root, key = where
            keys[root].append(key)
            if root.startswith("file:"):
                keys[root].append(_checksum_file_of(key))
        for root, below in keys.items():
            for start in range(0, len(below), _DELETE_BATCH):
                await self._delete_in(root, below[start : start + _DELETE_BATCH])

    async def _delete_in(self, root: str, keys: list[str]) -> None:
        try:
            await self._ports.storage.delete_many(root, keys)
        except InvalidInput:  # a link that leads outside, or an invalid name: it must not keep the other files
            if len(keys) == 1:
                self._outside += 1
                return
            for key in keys:
                await self._delete_in(root, [key])

    def _locate(self, path: str) -> tuple[str, str] | None:
        """The table's location that contains a file, and the path inside it. None if the file is outside all of them.

        The paths are compared as text; links are not followed.
        """
        folder, _, name = path.rpartition("/")
        try:
            found = normalize_location(folder) + name
        except InvalidInput:
            return None
        if "//" in path.partition("://")[2] and not found.startswith("file:"):
            return None  # in an object store, two slashes are not the same key as one
        return next(
            ((root, found[len(root) :]) for root in self._table.owned_locations if found.startswith(root)), None
        )

    def _report(self) -> None:
        name = f"table '{self._table.name}'"
        if self._damaged:
            path, why = next(iter(self._damaged.items()))
            message = f"{name} is purged except {len(self._damaged)} unreadable files, and the files that they name: "
            version = -1 if self._table.head is None else self._table.head.version
            now_ms = self._ports.now_ms()
            self._ports.alarms.report(self._table.id, MAIN, version, f"{message}{path} ({why}), …", now_ms=now_ms)
        if self._missing or self._outside:
            log.warning(
                "%s is purged; %d of its files are outside its locations, and %d files that named others were missing",
                name,
                self._outside,
                self._missing,
            )
