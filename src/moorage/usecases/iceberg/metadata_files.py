"""Metadata files: each version of a table or view has one, under a name of its own."""

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
from moorage.usecases.iceberg.lookup import head_of, projection_of
from moorage.usecases.iceberg.projections import parse_projected
from moorage.usecases.local_state import CacheKind
from moorage.usecases.parts import File, NewFile
from moorage.usecases.ports import Ports

KEPT_BYTES: Final = 4 * 1024 * 1024
"""Documents up to this size are rows of the ledger, so that a load touches no storage."""
_SMALL: Final = 256 * 1024
"""What is deflated or parsed right here; for more a thread is worth its price."""
LARGEST_METADATA: Final = 256 * 1024 * 1024
_METADATA: Final = "metadata"
_METADATA_PATH: Final = "write.metadata.path"
_DELETE_OLD: Final = "write.metadata.delete-after-commit.enabled"
_COMPRESSION: Final = "write.metadata.compression-codec"
_GZIP: Final = b"\x1f\x8b"
_PLAIN: Final = ".metadata.json"
_GZIPPED: Final = ".gz.metadata.json"

Version = int | str
"""Of a table or view; of a Delta table that is seen as an Iceberg table, the mark of its projection."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, object]).decode


class _Answer(msgspec.Struct, frozen=True, rename="kebab"):
    metadata_location: str
    metadata: msgspec.Raw


_decode_answer = msgspec.json.Decoder(_Answer).decode


def _opening(location: str) -> bytes:
    return b'{"metadata-location":%b,"metadata":' % _encode(location)


class Metadata:
    """One version of a table's metadata: where it lies, what it says, and the answer that shows it.

    The answer is `{"metadata-location": …, "metadata": …}`: loads send it as it is, and the ledger keeps it packed.
    What it says is read when somebody asks: most loads only pass it on.
    """

    __slots__ = ("_written", "answer", "location")

    def __init__(self, location: str, answer: bytes, written: Written | None = None) -> None:
        self.location = location
        self.answer = answer
        self._written = written

    @classmethod
    def new(cls, location: str, doc: Document, before: Metadata | None = None) -> Metadata:
        after = written(doc, None if before is None else before.written, prefix=_opening(location), suffix=b"}")
        return cls(location, after.text, after)

    @classmethod
    def kept(cls, packed: bytes) -> Metadata:
        answer = unpack(packed)
        return cls(_decode_answer(answer).metadata_location, answer)

    @property
    def doc(self) -> Document:
        return self.written.doc

    @property
    def written(self) -> Written:
        if self._written is None:
            self._written = Written(msgspec.json.decode(_decode_answer(self.answer).metadata), self.answer, {})
        return self._written

    @property
    def body(self) -> bytes:
        """What stands in its file."""
        return self.answer[len(_opening(self.location)) : -1]

    @property
    def is_kept(self) -> bool:
        """Whether the ledger has it too."""
        return len(self.answer) <= KEPT_BYTES

    def attachment(self, table: SecurableId, version: int) -> tuple[Attachment, ...]:
        if not self.is_kept:
            return ()
        return (Attachment(table=table, ref=MAIN, version=version, document=pack(self.answer)),)


async def new_metadata(doc: Document, version: int, before: Metadata | None = None) -> tuple[Metadata, NewFile]:
    """The next version of a table or view, and the file that has to hold it."""
    root = parse_location(doc["location"], field="location")
    gzipped = doc["properties"].get(_COMPRESSION, "").lower() == "gzip"
    name = f"{version:05d}-{fresh.draft_id()}{_GZIPPED if gzipped else _PLAIN}"
    folder, below = _folder(doc, root)
    made = Metadata.new(f"{folder}/{name}", doc, before)
    data = await _deflated(made.body) if gzipped else made.body
    return made, NewFile(root, f"{below}/{name}", data, made.is_kept)


def _folder(doc: Document, root: str) -> tuple[str, str]:
    """Where the metadata files of a table or view go, and the way to there from its root."""
    chosen = doc["properties"].get(_METADATA_PATH)
    if chosen is None:
        return f"{doc['location'].rstrip('/')}/{_METADATA}", _METADATA
    return chosen.rstrip("/"), _folder_below(root, chosen.rstrip("/"))


@lru_cache(maxsize=4_096)
def _folder_below(root: str, chosen: str) -> str:
    folder = confine(root, parse_location(chosen, field=_METADATA_PATH).rstrip("/"))
    if not chosen.endswith(f"/{folder}"):
        raise InvalidInput(
            f"{chosen!r} has escapes: some readers decode them and some do not, and only one could find the file",
            field=_METADATA_PATH,
        )
    return folder


async def rebuild_file(packed: bytes, location: str) -> NewFile:
    """The metadata file of a version that the ledger kept, as it was written."""
    body = Metadata.kept(packed).body
    folder, _, name = location.rpartition("/")
    data = await _deflated(body) if name.endswith(_GZIPPED) else body
    return NewFile(parse_location(folder, field="metadata-location"), name, data)


def fallen_files(before: Document, after: Document, kept: str, places: Iterable[str]) -> tuple[File, ...]:
    """Metadata files that fell off the log of a table whose owner wants them gone.

    A log can name any file: only metadata files in the places of the table are ever removed.
    """
    if after["properties"].get(_DELETE_OLD, "").lower() != "true":
        return ()
    still = {kept, *(entry["metadata-file"] for entry in after["metadata-log"])}
    fallen = (entry["metadata-file"] for entry in before["metadata-log"])
    return tuple(file for location in fallen if location not in still for file in _in_table(places, location))


def _in_table(places: Iterable[str], location: str) -> Iterator[File]:
    if location.endswith(_PLAIN):
        with suppress(InvalidInput):
            yield File(*locate_in(places, location))


async def _deflated(body: bytes) -> bytes:
    if len(body) <= _SMALL:
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
    """The metadata file at a location, or None if there is none. It may have to lie within a place."""
    if within is None:
        within = parse_location(location.rpartition("/")[0], field=field)
    root, path = locate_in((within,), location)
    data = await ports.storage.read(root, path, limit=LARGEST_METADATA)
    if data is None:
        return None
    if len(data) <= _SMALL:
        return _parsed(location, data, parse, field)
    return await asyncio.to_thread(_parsed, location, data, parse, field)  # others need not wait for that


def _parsed(location: str, data: bytes, parse: Callable[[Document], Document], field: str) -> Metadata:
    body = _inflated(data, field) if data.startswith(_GZIP) else data
    try:
        doc = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise InvalidInput(f"{field}: {location!r} is not a metadata file", field=field) from None
    return Metadata.new(location, parse(doc))  # others write files too, and in older forms


async def require_file(ports: Ports, location: str) -> None:
    """VersionNotFound if the metadata file was taken away.

    We could answer without it, but whoever goes by the location, as engines and other catalogs do, could not.
    """
    folder, _, name = location.rpartition("/")
    if await ports.storage.is_gone(parse_location(folder, field="metadata-location"), name):
        raise VersionNotFound(f"Failed to open input stream for file: {location}")


def _inflated(data: bytes, field: str) -> bytes:
    """Never more than a limit: a small file can claim to be a very large one."""
    inflate = zlib.decompressobj(wbits=31)
    try:
        body = inflate.decompress(data, LARGEST_METADATA)
    except zlib.error:
        raise InvalidInput(f"{field}: the file is damaged", field=field) from None
    if inflate.unconsumed_tail:
        raise TooLarge(f"{field}: the file holds more than {LARGEST_METADATA} bytes", field=field)
    return body


_CACHED: Final = CacheKind[tuple[SecurableId, Version], Metadata](
    "iceberg metadata", limit=32 * 1024 * 1024, weigh=lambda metadata: len(metadata.answer)
)
"""By bytes of JSON; parsed it takes about ten times as much. A version never changes, so every cached one is right."""


def cache_metadata(ports: Ports, table: SecurableId, version: Version, metadata: Metadata) -> None:
    cached = ports.local.cache(_CACHED)
    if (table, version) not in cached:
        cached.put((table, version), metadata)


def version_shown(table: Securable, projection: Projection | None) -> Version:
    """What changes whenever the metadata does that Iceberg's clients see."""
    return head_of(table).version if projection is None else projection.mark


async def metadata_of(ports: Ports, table: Securable) -> Metadata:
    """The metadata of a table or view at its head; of a projected table, that of the version converted last."""
    projection = projection_of(ports, table)
    version = version_shown(table, projection)
    found = ports.local.cache(_CACHED).get((table.id, version))
    if found is not None:
        return found
    found = await (_stored(ports, table) if projection is None else _projected(ports, table, projection))
    cache_metadata(ports, table.id, version, found)
    return found


async def _stored(ports: Ports, table: Securable) -> Metadata:
    version = head_of(table).version
    packed = await ports.ledger.document(table.id, MAIN, version)
    return await _read_version(ports, table, version) if packed is None else Metadata.kept(packed)


async def _read_version(ports: Ports, table: Securable, version: int) -> Metadata:
    versions = await ports.ledger.versions(table.id, MAIN, first=version, last=version)
    parse = parse_view if table.kind is Kind.VIEW else parse_table
    found = await read_metadata(ports, versions[0].file, parse) if versions else None
    if found is None:
        raise Damaged(f"the metadata file of {table.kind} '{table.name}' at version {version} is gone", table=table.id)
    return found


async def _projected(ports: Ports, table: Securable, projection: Projection) -> Metadata:
    """VersionNotFound if the file is not what the Delta commit said it would be."""
    place = table.doc.location or ""

    def parse(raw: Document) -> Document:
        return parse_projected(raw, projection, place)

    try:
        found, why = await read_metadata(ports, projection.metadata_location, parse, within=place), "there is no file"
    except InvalidInput as error:
        found, why = None, error.message
    if found is None:
        raise VersionNotFound(
            f"the Iceberg metadata of Delta table '{table.name}' at version {projection.version} cannot be read from "
            f"{projection.metadata_location}: {why}"
        )
    return found
