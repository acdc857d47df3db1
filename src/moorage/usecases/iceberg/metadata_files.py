"""Metadata files. Each version of a table or view has its own, under a unique name."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from typing import Final

import msgspec

from moorage import fresh
from moorage.core.entries import Attachment
from moorage.core.errors import Damaged, InvalidInput, TooLarge, VersionNotFound
from moorage.core.ids import SecurableId
from moorage.core.locations import locate_in, parse_location
from moorage.core.securables import MAIN, Kind, Securable
from moorage.formats.iceberg.documents import Document
from moorage.formats.iceberg.encoded import Written, written
from moorage.formats.iceberg.packed import pack, unpack
from moorage.formats.iceberg.table_metadata import parse_table
from moorage.formats.iceberg.views import parse_view
from moorage.storage.confine import confine
from moorage.usecases.formats import Projection
from moorage.usecases.iceberg.lookup import require_head
from moorage.usecases.iceberg.projections import available_from, parse_projected
from moorage.usecases.local_state import CacheKind
from moorage.usecases.parts import File, NewFile
from moorage.usecases.ports import Ports

MAX_STORED_BYTES: Final = 4 * 1024 * 1024
"""Documents up to this size are stored in the ledger, so that a load reads no file."""
_MAX_INLINE_BYTES: Final = 256 * 1024
"""Files up to this size are compressed and parsed on the event loop; for larger ones a thread pays off."""
MAX_METADATA_BYTES: Final = 256 * 1024 * 1024
_METADATA: Final = "metadata"
_METADATA_PATH: Final = "write.metadata.path"
_DELETE_OLD: Final = "write.metadata.delete-after-commit.enabled"
_COMPRESSION: Final = "write.metadata.compression-codec"
_GZIP_MAGIC: Final = b"\x1f\x8b"
_SUFFIX: Final = ".metadata.json"
_GZIP_SUFFIX: Final = ".gz.metadata.json"

Version = int | str
"""The version of a table or view; for a Delta table that is read as an Iceberg table, the mark of its projection."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, object]).decode


class _Answer(msgspec.Struct, frozen=True, rename="kebab"):
    metadata_location: str
    metadata: msgspec.Raw


_decode_answer = msgspec.json.Decoder(_Answer).decode


def _response_prefix(location: str) -> bytes:
    return b'{"metadata-location":%b,"metadata":' % _encode(location)


class Metadata:
    """One version of a table's metadata: its location, its document, and the response body that contains both.

    The body is `{"metadata-location": …, "metadata": …}`. Loads send it unchanged, and the ledger stores it compressed.
    The document is decoded only when it is needed, because most loads only send the body.
    """

    __slots__ = ("_encoded", "answer", "location")

    def __init__(self, location: str, answer: bytes, encoded: Written | None = None) -> None:
        self.location = location
        self.answer = answer
        self._encoded = encoded

    @classmethod
    def new(cls, location: str, doc: Document, before: Metadata | None = None) -> Metadata:
        after = written(doc, None if before is None else before.encoded, prefix=_response_prefix(location), suffix=b"}")
        return cls(location, after.text, after)

    @classmethod
    def from_ledger(cls, packed: bytes) -> Metadata:
        answer = unpack(packed)
        return cls(_decode_answer(answer).metadata_location, answer)

    @property
    def doc(self) -> Document:
        return self.encoded.doc

    @property
    def encoded(self) -> Written:
        if self._encoded is None:
            self._encoded = Written(msgspec.json.decode(_decode_answer(self.answer).metadata), self.answer, {})
        return self._encoded

    @property
    def body(self) -> bytes:
        """The content of its file."""
        return self.answer[len(_response_prefix(self.location)) : -1]

    @property
    def is_in_ledger(self) -> bool:
        """Whether the ledger stores it too."""
        return len(self.answer) <= MAX_STORED_BYTES

    def attachment(self, table: SecurableId, version: int) -> tuple[Attachment, ...]:
        if not self.is_in_ledger:
            return ()
        return (Attachment(table=table, ref=MAIN, version=version, document=pack(self.answer)),)


async def new_metadata(doc: Document, version: int, before: Metadata | None = None) -> tuple[Metadata, NewFile]:
    """The metadata of the next version of a table or view, and the file to write."""
    root = parse_location(doc["location"], field="location")
    gzipped = doc["properties"].get(_COMPRESSION, "").lower() == "gzip"
    name = f"{version:05d}-{fresh.draft_id()}{_GZIP_SUFFIX if gzipped else _SUFFIX}"
    folder, below = _metadata_folder(doc, root)
    made = Metadata.new(f"{folder}/{name}", doc, before)
    data = await _compress(made.body) if gzipped else made.body
    return made, NewFile(root, f"{below}/{name}", data, made.is_in_ledger)


def _metadata_folder(doc: Document, root: str) -> tuple[str, str]:
    """The folder for the metadata files of a table or view, and its path inside the root."""
    chosen = doc["properties"].get(_METADATA_PATH)
    if chosen is None:
        return f"{doc['location'].rstrip('/')}/{_METADATA}", _METADATA
    return chosen.rstrip("/"), _chosen_folder(root, chosen.rstrip("/"))


@lru_cache(maxsize=4_096)
def _chosen_folder(root: str, chosen: str) -> str:
    folder = confine(root, parse_location(chosen, field=_METADATA_PATH).rstrip("/"))
    if not chosen.endswith(f"/{folder}"):
        raise InvalidInput(
            f"{chosen!r} has escapes, which only some readers decode, so the others could not find the files; "
            "choose a path that needs no escapes",
            field=_METADATA_PATH,
        )
    return folder


async def rebuild_file(packed: bytes, location: str) -> NewFile:
    """The metadata file of a version, byte for byte, from the document in the ledger."""
    body = Metadata.from_ledger(packed).body
    folder, _, name = location.rpartition("/")
    data = await _compress(body) if name.endswith(_GZIP_SUFFIX) else body
    return NewFile(parse_location(folder, field="metadata-location"), name, data)


def expired_metadata_files(
    before: Document, after: Document, current: str, locations: Iterable[str]
) -> tuple[File, ...]:
    """Metadata files that left the metadata log, if the table's properties ask for their deletion.

    A log can name any file, so only metadata files in the table's locations are deleted.
    """
    if after["properties"].get(_DELETE_OLD, "").lower() != "true":
        return ()
    needed = {current, *(entry["metadata-file"] for entry in after["metadata-log"])}
    paths = (entry["metadata-file"] for entry in before["metadata-log"])
    return tuple(file for path in paths if path not in needed for file in _metadata_file_in(locations, path))


def _metadata_file_in(locations: Iterable[str], path: str) -> Iterator[File]:
    if path.endswith(_SUFFIX):
        with suppress(InvalidInput):
            yield File(*locate_in(locations, path))


async def _compress(body: bytes) -> bytes:
    if len(body) <= _MAX_INLINE_BYTES:
        return gzip.compress(body, 6, mtime=0)
    return await asyncio.to_thread(gzip.compress, body, 6, mtime=0)


async def read_metadata(
    ports: Ports,
    location: str,
    parse: Callable[[Document], Document],
    *,
    field: str = "metadata-location",
    within: str | None = None,
) -> Metadata | None:
    """The metadata file at a location, or None if it does not exist. It must be inside `within`, if that is given."""
    if within is None:
        within = parse_location(location.rpartition("/")[0], field=field)
    root, path = locate_in((within,), location)
    data = await ports.storage.read(root, path, limit=MAX_METADATA_BYTES)
    if data is None:
        return None
    if len(data) <= _MAX_INLINE_BYTES:
        return _parse_file(location, data, parse, field)
    return await asyncio.to_thread(_parse_file, location, data, parse, field)  # keeps the event loop free


def _parse_file(location: str, data: bytes, parse: Callable[[Document], Document], field: str) -> Metadata:
    body = _decompress(data, field) if data.startswith(_GZIP_MAGIC) else data
    try:
        doc = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise InvalidInput(f"{field}: {location!r} is not an Iceberg metadata file", field=field) from None
    return Metadata.new(location, parse(doc))  # other writers use older forms, so it is encoded again


async def require_metadata_file(ports: Ports, location: str) -> None:
    """Raise VersionNotFound if the metadata file was deleted.

    The ledger could answer without the file, but engines and other catalogs that open the location could not.
    """
    folder, _, name = location.rpartition("/")
    if await ports.storage.is_missing(parse_location(folder, field="metadata-location"), name):
        raise VersionNotFound(f"Failed to open input stream for file: {location}")


def _decompress(data: bytes, field: str) -> bytes:
    """Decompress at most a limit, because a small file can expand to a very large one."""
    inflate = zlib.decompressobj(wbits=31)
    try:
        body = inflate.decompress(data, MAX_METADATA_BYTES)
    except zlib.error:
        raise InvalidInput(f"{field}: the file is not valid gzip", field=field) from None
    if inflate.unconsumed_tail:
        raise TooLarge(f"{field}: the decompressed file has more than {MAX_METADATA_BYTES} bytes", field=field)
    return body


_CACHED: Final = CacheKind[tuple[SecurableId, Version], Metadata](
    "iceberg metadata", limit=32 * 1024 * 1024, weigh=lambda metadata: len(metadata.answer)
)
"""Weighed by bytes of JSON; decoded it takes about ten times as much. A version never changes, so no entry is stale."""


def cache_metadata(ports: Ports, table: SecurableId, version: Version, metadata: Metadata) -> None:
    """Cache the metadata of a version that this server made. It replaces what a load has read from the ledger.

    The next commit needs the decoded document and the positions of its lists, which only the maker has.
    """
    cached = ports.local.cache(_CACHED)
    if cached.get((table, version)) is not metadata:
        cached.put((table, version), metadata)


async def load_metadata(ports: Ports, table: Securable) -> Metadata:
    """The metadata of an Iceberg table or view at its head."""
    cached, key = ports.local.cache(_CACHED), (table.id, require_head(table).version)
    found = cached.get(key)
    if found is None:
        # The version may be new: in its next turn on the event loop, the request that made it caches its metadata.
        await asyncio.sleep(0)
        found = cached.get(key)
    if found is None:
        read = await _load_stored(ports, table)
        found = cached.get(key)
        if found is None:
            found = read
            cached.put(key, read)
    return found


async def load_projected(ports: Ports, table: Securable, projection: Projection) -> Metadata:
    """The metadata of a table of another format that was converted."""
    found = ports.local.cache(_CACHED).get((table.id, projection.change_tag))
    if found is None:
        document = projection.document
        found = await _read_projected(ports, table, projection) if document is None else Metadata.from_ledger(document)
        if projection.is_own and projection.floor:
            found = Metadata.new(found.location, available_from(found.doc, projection.floor))
        cache_metadata(ports, table.id, projection.change_tag, found)
    return found


async def _load_stored(ports: Ports, table: Securable) -> Metadata:
    version = require_head(table).version
    packed = await ports.ledger.document(table.id, MAIN, version)
    return await _read_version(ports, table, version) if packed is None else Metadata.from_ledger(packed)


async def _read_version(ports: Ports, table: Securable, version: int) -> Metadata:
    found = await load_version(ports, table, version)
    if found is None:
        raise Damaged(
            f"the metadata file of {table.kind} '{table.name}' at version {version} is missing", table=table.id
        )
    return found


async def load_version(ports: Ports, table: Securable, version: int) -> Metadata | None:
    """The metadata of a version from its file, also of an older one. None if the version or its file is gone."""
    versions = await ports.ledger.versions(table.id, MAIN, first=version, last=version)
    found = ports.local.cache(_CACHED).get((table.id, version))
    if found is None and versions:
        found = await read_metadata(ports, versions[0].file, parse_view if table.kind is Kind.VIEW else parse_table)
        if found is not None:
            cache_metadata(ports, table.id, version, found)
    return found if versions else None


async def _read_projected(ports: Ports, table: Securable, projection: Projection) -> Metadata:
    """The metadata from its file, or VersionNotFound if the file is not what was committed."""
    root, location = table.doc.location or "", projection.metadata_location
    try:
        return await read_projected(ports, root, location, projection.version)
    except InvalidInput as error:
        raise VersionNotFound(
            f"the Iceberg metadata of Delta table '{table.name}' at version {projection.version} cannot be read from "
            f"{location}: {error.message}"
        ) from None


async def read_projected(ports: Ports, root: str, location: str, version: int) -> Metadata:
    """The metadata file of a Delta table. VersionNotFound: there is none; InvalidInput: it describes something else."""
    found = await read_metadata(ports, location, lambda raw: parse_projected(raw, version, root), within=root)
    if found is None:
        raise VersionNotFound(f"there is no file at {location}")
    return found
