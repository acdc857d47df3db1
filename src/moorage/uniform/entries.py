"""Manifests that this server wrote, read again without decoding the statistics of their files."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from moorage.formats.iceberg.avro import reading
from moorage.formats.iceberg.documents import Document

EXISTING, ADDED, DELETED = 0, 1, 2
DATA, DELETES = 0, 1
VERSION_3_NULLS: Final = b"\x00" * 4
"""The fields that format version 3 added to a file, without values."""


class Entry(NamedTuple):
    """One entry of a manifest. The bytes of its file stay encoded."""

    status: int
    snapshot_id: int | None
    sequence: int | None
    file_sequence: int | None
    body: bytes
    """The file, without the fields that format version 3 added."""
    path: str
    """The data file; for a vector the file to which it belongs."""
    rows: int
    size: int
    first_row: int | None
    reference: bytes
    """The encoded fields of version 3 that follow the first row id."""


class Manifest(NamedTuple):
    """A manifest that this server wrote, read again."""

    partition: list[Document]
    """The Avro fields of its partition values. A column may have had another type when they were written."""
    entries: list[Entry]


_Skip: TypeAlias = Callable[["_Cursor"], None]


class _Cursor:
    """A position in encoded records."""

    __slots__ = ("at", "data")

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data, self.at = data, at

    def long(self) -> int:
        byte = self.data[self.at]
        self.at += 1
        coded, shift = byte & 0x7F, 7
        while byte > 0x7F:
            byte = self.data[self.at]
            self.at += 1
            coded |= (byte & 0x7F) << shift
            shift += 7
        return (coded >> 1) ^ -(coded & 1)

    def optional_long(self) -> int | None:
        is_present = self.long()
        return self.long() if is_present else None

    def bytes(self) -> bytes:
        size = self.long()
        self.at += size
        return self.data[self.at - size : self.at]

    def skip_list(self) -> None:
        """Skip an optional list or map. The manifests of this server state the length of every block."""
        if not self.long():
            return
        while count := self.long():
            if count > 0:
                raise ValueError("a list does not state its length")
            size = self.long()
            self.at += size


def _skip_value(kind: Any) -> _Skip:
    if isinstance(kind, dict):
        if kind["type"] == "fixed":
            return _skip_bytes(kind["size"])
        kind = kind["type"]
    if kind in ("float", "double", "boolean"):
        return _skip_bytes({"float": 4, "double": 8, "boolean": 1}[kind])
    return _Cursor.bytes if kind == "string" else _Cursor.long  # type: ignore[return-value]


def _skip_bytes(size: int) -> _Skip:
    def skip(cursor: _Cursor) -> None:
        cursor.at += size

    return skip


def read_manifest(data: bytes, path: str) -> Manifest:
    """Read a manifest that this server wrote."""
    with reading(f"the manifest {path}"):
        header = _Cursor(data, 4)
        meta = {header.bytes().decode(): header.bytes() for _ in range(header.long())}
        header.at += 1 + 16
        schema = msgspec.json.decode(meta["avro.schema"])
        fields = {field["name"]: field for field in schema["fields"][-1]["type"]["fields"]}
        partition = fields["partition"]["type"]["fields"]
        skips = [_skip_value(field["type"][1]) for field in partition]
        is_version_3 = "first_row_id" in fields
        found: list[Entry] = []
        while header.at < len(data):
            count, size = header.long(), header.long()
            block = zlib.decompress(data[header.at : header.at + size], -15)
            header.at += size + 16
            cursor = _Cursor(block)
            found += [_entry(cursor, skips, is_version_3=is_version_3) for _ in range(count)]
        return Manifest(partition, found)


def _entry(cursor: _Cursor, skips: Sequence[_Skip], *, is_version_3: bool) -> Entry:
    status, snapshot_id = cursor.long(), cursor.optional_long()
    sequence, file_sequence = cursor.optional_long(), cursor.optional_long()
    start = cursor.at
    content = cursor.long()
    path = cursor.bytes()
    cursor.bytes()
    for skip in skips:
        if cursor.long():
            skip(cursor)
    rows, size = cursor.long(), cursor.long()
    for _ in range(6):
        cursor.skip_list()
    for _ in range(4):  # null in every manifest of this server
        cursor.long()
    body = cursor.data[start : cursor.at]
    first_row, reference = None, VERSION_3_NULLS[1:]
    if is_version_3:
        first_row, at = cursor.optional_long(), cursor.at
        if cursor.long():
            referenced = cursor.bytes()
            path = referenced if content == DELETES else path
        cursor.optional_long()
        cursor.optional_long()
        reference = cursor.data[at : cursor.at]
    return Entry(status, snapshot_id, sequence, file_sequence, body, path.decode(), rows, size, first_row, reference)


def live_entries(entries: Iterable[Entry], listed: Document) -> list[Entry]:
    """The entries that are not deleted, with the values that they inherit from the manifest list."""
    next_row, found = listed.get("first_row_id"), []
    for entry in entries:
        if entry.status == DELETED:
            continue
        first_row = entry.first_row
        if first_row is None and next_row is not None and listed["content"] == DATA:
            first_row, next_row = next_row, next_row + entry.rows
        inherited = listed["sequence_number"]
        found.append(
            entry._replace(
                snapshot_id=listed["added_snapshot_id"] if entry.snapshot_id is None else entry.snapshot_id,
                sequence=inherited if entry.sequence is None else entry.sequence,
                file_sequence=inherited if entry.file_sequence is None else entry.file_sequence,
                first_row=first_row,
            )
        )
    return found
