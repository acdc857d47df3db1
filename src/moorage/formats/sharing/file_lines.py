"""The lines of a snapshot's files, in both formats.

A line is the same in every response except for the URL and what the response states about all files. So the rest is
encoded once, as a tail, and cached with the files. A response then joins heads, URLs and tails.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from moorage.formats.delta.deletion_vectors import vector_path
from moorage.formats.delta.file_actions import AddFile, Texts
from moorage.formats.delta.replay import Part, to_files
from moorage.formats.sharing.capabilities import ResponseFormat
from moorage.formats.sharing.file_ids import IdScheme, file_id
from moorage.formats.sharing.lines import to_json

FileTable: TypeAlias = pa.Table
"""Files or their tails, one per row."""
Urls: TypeAlias = pa.BinaryArray

TAILS: Final = pa.schema(
    [
        ("path", pa.string()),
        ("tail", pa.binary()),
        ("vector_path", pa.string()),
        ("vector_tail", pa.binary()),
        ("size", pa.int64()),
    ]
)
"""The path of a file in the log, and what follows its URL. If the file has a deletion vector in a file of its own, the
tail ends before the URL of that file, and `vector_tail` follows it."""

_EMPTY_PATH = b'{"path":"",'
_VECTOR_URL = "\0"
_BEFORE_VECTOR = b'"pathOrInlineDv":"'
_VECTOR_MARK = _BEFORE_VECTOR + b'\\u0000"'


class Stated(msgspec.Struct, frozen=True, kw_only=True):
    """What a response states about each of its files."""

    expires_at_ms: int
    version: int | None = None
    timestamp_ms: int | None = None


class LineParts(NamedTuple):
    """The parts of a line that all files of a response share."""

    head: bytes
    """Before the URL."""
    middle: bytes
    """Between the URL and the tail."""


class _ParquetFile(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    id: str
    partition_values: Texts
    size: int
    stats: str | None = None


class Block(NamedTuple):
    """Some consecutive files of a slab, and which of them are selected."""

    start: int
    files: pa.Table
    rows: Any
    """One bit per file, as an Arrow array; None means all."""
    selected: int


def blocks_of(part: Part, size: int) -> Iterator[Block]:
    """Split a selection into blocks. Blocks without a selected file are left out."""
    table = part.slab.table
    for start in range(0, table.num_rows, size):
        files = table.slice(start, size)
        rows = None if part.alive is None else part.alive.slice(start, size)
        selected = files.num_rows if rows is None else pc.sum(rows).as_py() or 0
        if selected:
            yield Block(start, files, rows, selected)


def to_tails(files: pa.Table, chosen: ResponseFormat, scheme: IdScheme) -> pa.Table:
    """Encode the tails of these files. Takes about ten microseconds per file: do not call it on the event loop."""
    encode = _parquet_tail if chosen == "parquet" else _delta_tail
    rows = [encode(add, scheme) for add in to_files(files)]
    return pa.table([pa.array(column, field.type) for column, field in zip(_columns(rows), TAILS, strict=True)], TAILS)


_Tail = tuple[str, bytes, str | None, bytes | None, int]


def _columns(rows: Sequence[_Tail]) -> Sequence[Sequence[object]]:
    return list(zip(*rows, strict=True)) if rows else [[] for _ in TAILS]


def _parquet_tail(add: AddFile, scheme: IdScheme) -> _Tail:
    file = _ParquetFile(
        id=file_id(add.path, scheme), partition_values=add.partition_values, size=add.size, stats=add.stats
    )
    return add.path, to_json(file)[1:] + b"}\n", None, None, add.size


def _delta_tail(add: AddFile, scheme: IdScheme) -> _Tail:
    vector = add.deletion_vector
    target = None if vector is None else vector_path(vector)
    if vector is not None and target is not None:
        vector = replace(vector, storage_type="p", path_or_inline_dv=_VECTOR_URL)
    encoded = to_json(replace(add, path="", deletion_vector=vector)).removeprefix(_EMPTY_PATH)
    ids = f'}},"id":"{file_id(add.path, scheme)}"'
    if vector is not None:
        ids += f',"deletionVectorFileId":"{file_id(target or vector.path_or_inline_dv, scheme)}"'
    whole = encoded + ids.encode() + b"}}\n"
    if target is None:
        return add.path, whole, None, None, add.size
    # The last match: a tag of the file could have the same name, but it comes before the vector.
    before, _, after = whole.rpartition(_VECTOR_MARK)
    return add.path, before + _BEFORE_VECTOR, target, b'"' + after, add.size


def line_parts(chosen: ResponseFormat, stated: Stated) -> LineParts:
    common = f'"expirationTimestamp":{stated.expires_at_ms},'
    if stated.version is not None:
        common += f'"version":{stated.version},'
    if stated.timestamp_ms is not None:
        common += f'"timestamp":{stated.timestamp_ms},'
    if chosen == "parquet":
        return LineParts(b'{"file":{"url":"', f'",{common}'.encode())
    return LineParts(f'{{"file":{{{common}"deltaSingleAction":{{"add":{{"path":"'.encode(), b'",')


def join_lines(parts: LineParts, urls: Urls, tails: pa.Table, vector_urls: Urls | None = None) -> bytes:
    """The lines of these files. `vector_urls` has a null for each file without a `vector_path`."""
    pieces = [pa.scalar(parts.head), urls, pa.scalar(parts.middle), tails["tail"]]
    if vector_urls is not None:
        pieces += [vector_urls, tails["vector_tail"]]
    joined = pc.binary_join_element_wise(*pieces, b"", null_handling="replace", null_replacement=b"")
    return b"".join(map(_text_of, joined.chunks if isinstance(joined, pa.ChunkedArray) else [joined]))


def concat(tails: Sequence[pa.Table]) -> pa.Table:
    """Tails one after the other. Those with other columns have nulls there."""
    return tails[0] if len(tails) == 1 else pa.concat_tables(tails, promote_options="default")


def to_urls(urls: Sequence[bytes | None]) -> Urls:
    return pa.array(urls, pa.binary())


def beside_vectors(tails: pa.Table, urls: Sequence[bytes]) -> Urls | None:
    """URLs of deletion vectors in the rows of the files that have one; None if no file has."""
    if not urls:
        return None
    has_vector = tails["vector_path"].combine_chunks().is_valid()
    return pc.replace_with_mask(pa.nulls(tails.num_rows, pa.binary()), has_vector, to_urls(urls))


def _text_of(values: pa.BinaryArray) -> memoryview:
    """All values of an array, one after the other, without a copy."""
    if not len(values):
        return memoryview(b"")
    _, offsets, text = values.buffers()
    bounds = memoryview(offsets).cast("i")
    return memoryview(text)[bounds[values.offset] : bounds[values.offset + len(values)]]
