"""What a conversion reads from storage: manifests, deletion vectors, and row counts that the log does not state."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from moorage.core.errors import Damaged
from moorage.core.ids import SecurableId
from moorage.core.securables import Securable
from moorage.formats.delta.deletion_vectors import vector_path
from moorage.formats.delta.file_actions import AddFile, DeletionVector
from moorage.formats.iceberg.avro import read_avro, reading
from moorage.formats.iceberg.documents import Document
from moorage.storage.confine import confine
from moorage.usecases.local_state import CacheKind
from moorage.usecases.ports import Ports

if TYPE_CHECKING:
    from moorage.uniform.conversion import Frames

A = TypeVar("A")
B = TypeVar("B")

_MAX_FILE_BYTES: Final = 256 * 1024 * 1024
_CONCURRENT_READS: Final = 8

_NAMED: Final = CacheKind[tuple[SecurableId, str], frozenset[int]](
    "data files in converted manifests", limit=64 * 1024 * 1024, weigh=lambda hashes: 64 * (1 + len(hashes))
)
"""For each manifest the hashes of the data files that it names. Without it, every removed file would have to be
searched in all manifests."""


_LISTS: Final = CacheKind[str, tuple[Document, ...]](
    "manifest lists of converted tables", limit=50_000, weigh=lambda listed: 1 + len(listed)
)
"""By path. The next conversion needs the list of the last one."""


class ConvertedFiles:
    """The files of one table's conversion: those in storage, and those that the running conversion makes."""

    def __init__(self, ports: Ports, table: Securable) -> None:
        self._ports = ports
        self._table = table.id
        self.root = table.doc.location or ""
        self.made: dict[str, bytes] = {}

    async def add(self, files: Mapping[str, bytes], paths: Mapping[str, Iterable[str]]) -> None:
        self.made.update(files)
        # On a thread, because a first conversion names all files of the table.
        for manifest, hashes in (await asyncio.to_thread(_hashes, paths)).items():
            self._ports.local.cache(_NAMED).put((self._table, manifest), hashes)

    def add_list(self, doc: Document, listed: tuple[Document, ...]) -> None:
        """Keep the manifest list of the newest snapshot in memory."""
        self._ports.local.cache(_LISTS).put(doc["snapshots"][-1]["manifest-list"], listed)

    async def read(self, path: str) -> bytes:
        """The file at a full path inside the table."""
        made = self.made.get(path)
        data = await self._read(path) if made is None else made
        if data is None:
            raise Damaged(f"{path} is missing, but the converted table still needs it", table=self._table)
        return data

    async def _read(self, path: str) -> bytes | None:
        return await self._ports.storage.read(self.root, confine(self.root, _quoted(path)), limit=_MAX_FILE_BYTES)

    async def read_all(self, paths: Sequence[str]) -> dict[str, bytes]:
        return dict(zip(paths, await self._each(self.read, paths), strict=True))

    async def manifest_list(self, doc: Document) -> tuple[Document, ...]:
        """The records of the newest snapshot's manifest list."""
        path = doc["snapshots"][-1]["manifest-list"]
        found = self._ports.local.cache(_LISTS).get(path)
        if found is not None:
            return found
        data = await self.read(path)
        with reading(f"the manifest list {path}"):
            return tuple(read_avro(data).records)

    async def manifests_naming(self, listed: Sequence[Document], paths: Collection[str]) -> dict[str, bytes]:
        """The listed manifests that name one of these data files."""
        if not paths:
            return {}
        manifests, wanted = [record["manifest_path"] for record in listed], frozenset(map(hash, paths))
        named = await self._each(self._hashes_in, manifests)
        return await self.read_all(
            [manifest for manifest, known in zip(manifests, named, strict=True) if not known.isdisjoint(wanted)]
        )

    async def _hashes_in(self, manifest: str) -> frozenset[int]:
        from moorage.uniform.entries import read_manifest

        cached = self._ports.local.cache(_NAMED)
        known = cached.get((self._table, manifest))
        if known is None:
            data = await self.read(manifest)
            entries = (await asyncio.to_thread(read_manifest, data, manifest)).entries
            known = frozenset(hash(entry.path) for entry in entries)
            cached.put((self._table, manifest), known)
        return known

    async def frames(self, files: Mapping[str, AddFile]) -> Frames:
        """The deletion vectors of these data files."""
        from moorage.uniform.vectors import framed

        vectors: dict[str, DeletionVector] = {
            path: file.deletion_vector for path, file in files.items() if file.deletion_vector is not None
        }
        places = {path: vector_path(vector) for path, vector in vectors.items()}
        stored = sorted({place for place in places.values() if place is not None})
        files_read = await self._each(self._read, [self.root + confine(self.root, place) for place in stored])
        data = dict(zip(stored, files_read, strict=True))
        return {path: (vector, framed(vector, data.get(places[path] or ""))) for path, vector in vectors.items()}

    async def row_counts(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """The row counts in the footers of data files without statistics, which have these sizes."""
        return dict(zip(sizes, await self._each(lambda file: self._rows(*file), list(sizes.items())), strict=True))

    async def _each(self, read: Callable[[A], Awaitable[B]], what: Sequence[A]) -> list[B]:
        """Read several things, some of them concurrently."""
        found: list[B] = []
        for start in range(0, len(what), _CONCURRENT_READS):
            found += await asyncio.gather(*map(read, what[start : start + _CONCURRENT_READS]))
        return found

    async def _rows(self, path: str, size: int) -> int:
        from moorage.uniform.changes import rows_in
        from moorage.uniform.refusals import Refused

        try:
            return await asyncio.to_thread(rows_in, await self._footer(path, size))
        except ValueError:
            raise Refused(
                f"the log does not state the number of rows of {path}, and its footer cannot be read; "
                "write the table with statistics"
            ) from None

    async def _footer(self, path: str, size: int) -> bytes:
        """The end of a data file with its footer. Empty if it has none that can be read."""
        from moorage.snapshots.footer_statistics import FIRST_READ, MAX_FOOTER, footer_bytes

        key = confine(self.root, _quoted(path))

        async def last(count: int) -> bytes:
            return await self._ports.storage.read_range(self.root, key, start=max(size - count, 0), end=size) or b""

        tail = await last(FIRST_READ)
        needed = footer_bytes(tail)
        if needed is None or needed > MAX_FOOTER:
            return b""
        return tail if needed <= len(tail) else await last(needed)


def _hashes(paths: Mapping[str, Iterable[str]]) -> dict[str, frozenset[int]]:
    return {manifest: frozenset(map(hash, names)) for manifest, names in paths.items()}


def _quoted(path: str) -> str:
    """A path that is not encoded, in the form in which logs name files."""
    return path.replace("%", "%25")
