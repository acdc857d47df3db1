"""The files of an Iceberg table that is purged: all that lies in places of ours, elsewhere only what is the table's.

A place that its owner chose may hold files of others: there goes what the metadata names, and only below the table's
own locations. Files go before what names them, so whoever begins again after a crash finds what is left.
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
from moorage.usecases.iceberg.manifests import LARGEST_FILE
from moorage.usecases.iceberg.metadata_files import Metadata, metadata_of
from moorage.usecases.ports import Ports

log = logging.getLogger(__name__)

_READ_AT_ONCE: Final = 4
_DELETED_AT_ONCE: Final = 1_000
_VERSIONS_AT_ONCE: Final = 1_000
_UNREADABLE: Final = (Damaged, InvalidInput, TooLarge)

T = TypeVar("T")


async def delete_files_of(ports: Ports, table: Securable) -> None:
    """Delete the files that go with a table; a failure of the store leaves the rest for the next time."""
    places = table.owned_locations
    given = [place for place in places if is_assigned(ports.roots, place, table.id) and not _shares_files(table)]
    if len(given) < len(places):
        chain = (await ports.ledger.lineage(table.id)).chain
        if chain:  # else another server was faster
            await _Removal(ports, chain[-1]).run()
    for place in given:
        await ports.storage.delete_all(place)


def _shares_files(table: Securable) -> bool:
    """Whether its owner says that other tables may need its data files. Then only its metadata is its own."""
    return table.doc.properties.get("gc.enabled", "").lower() == "false"


def _checksum_of(key: str) -> str:
    """What Hadoop writes beside each file on a local disk."""
    folder, slash, name = key.rpartition("/")
    return f"{folder}{slash}.{name}.crc"


class _Removal:
    """What the metadata of one table names, deleted from its end to its beginning."""

    def __init__(self, ports: Ports, table: Securable) -> None:
        self._ports = ports
        self._table = table
        self._gone = 0
        self._outside = 0
        self._damaged: dict[str, str] = {}
        """By path, what is wrong with a file that may name others: it stays, and so do they."""

    async def run(self) -> None:
        try:
            metadata = await metadata_of(self._ports, self._table)
        except _UNREADABLE as error:
            self._damaged["its metadata"] = error.message
        else:
            await self._delete_below(metadata)
        self._tell()

    async def _delete_below(self, metadata: Metadata) -> None:
        doc = metadata.doc
        lists = {each["manifest-list"] for each in doc["snapshots"] if "manifest-list" in each}
        manifests = {path for each in doc["snapshots"] for path in each.get("manifests", ())}  # of version 1
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
        await self._delete((metadata.location,))  # the last: without it nobody could begin again

    async def _metadata_files(self) -> AsyncIterator[list[str]]:
        """Those of all versions: the log in the metadata forgets older ones."""
        first = 0
        while some := await self._ports.ledger.versions(self._table.id, MAIN, first=first, limit=_VERSIONS_AT_ONCE):
            yield [version.file for version in some]
            first = some[-1].version + 1

    async def _read(self, paths: Collection[str], parse: Callable[[bytes, str], T]) -> AsyncIterator[T]:
        """What these files say, a few at a time; what cannot be read is remembered."""
        waiting = iter(paths)
        while some := list(islice(waiting, _READ_AT_ONCE)):
            for found in await asyncio.gather(*(self._read_one(path, parse) for path in some)):
                if found is not None:
                    yield found

    async def _read_one(self, path: str, parse: Callable[[bytes, str], T]) -> T | None:
        where = self._where(path)
        if where is None:
            return None  # whoever deletes it will count it
        try:
            data = await self._ports.storage.read(*where, limit=LARGEST_FILE)
            if data is not None:
                return await asyncio.to_thread(parse, data, path)
            self._gone += 1
        except _UNREADABLE as error:
            self._damaged[path] = error.message
        return None

    async def _delete(self, paths: Iterable[str]) -> None:
        keys = defaultdict[str, list[str]](list)
        for path in paths:
            where = self._where(path)
            if where is None:
                self._outside += 1
                continue
            root, key = where
            keys[root].append(key)
            if root.startswith("file:"):
                keys[root].append(_checksum_of(key))
        for root, below in keys.items():
            for start in range(0, len(below), _DELETED_AT_ONCE):
                await self._delete_in(root, below[start : start + _DELETED_AT_ONCE])

    async def _delete_in(self, root: str, keys: list[str]) -> None:
        try:
            await self._ports.storage.delete_many(root, keys)
        except InvalidInput:  # a link leads elsewhere, or a name is none: that of one file must not keep the others
            if len(keys) == 1:
                self._outside += 1
                return
            for key in keys:
                await self._delete_in(root, [key])

    def _where(self, path: str) -> tuple[str, str] | None:
        """The place of the table in which a file lies, and the way from there, by its letters; None if in none."""
        folder, _, name = path.rpartition("/")
        try:
            found = normalize_location(folder) + name
        except InvalidInput:
            return None
        if "//" in path.partition("://")[2] and not found.startswith("file:"):
            return None  # in an object store this is not the file that has one slash there
        return next(
            ((root, found[len(root) :]) for root in self._table.owned_locations if found.startswith(root)), None
        )

    def _tell(self) -> None:
        name = f"table '{self._table.name}'"
        if self._damaged:
            path, why = next(iter(self._damaged.items()))
            message = f"{name} is purged but for {len(self._damaged)} files that cannot be read, and what they name: "
            version = -1 if self._table.head is None else self._table.head.version
            now_ms = self._ports.now_ms()
            self._ports.alarms.ring(self._table.id, MAIN, version, f"{message}{path} ({why}), …", now_ms=now_ms)
        if self._gone or self._outside:
            log.warning(
                "%s is purged; %d of its files lie outside of its location, and %d that named others were gone before",
                name,
                self._outside,
                self._gone,
            )
