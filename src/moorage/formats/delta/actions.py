"""Reads a staged Delta commit file line by line and keeps only what the catalog needs.

A commit can be a hundred megabytes. Each line is therefore released after it is read, and a file action is
reduced to its path and its row ids.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import BytesIO
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import astuple

from moorage.core.errors import InvalidInput
from moorage.formats.delta.file_actions import AddFile, ChangeFile, Count, DeletionVector, Long, RemoveFile

T = TypeVar("T")
VECTOR_ID_LENGTH: Final = 20
"""The file name of a deletion vector is encoded in 20 characters. Anything before them is a folder prefix."""


class Format(msgspec.Struct, frozen=True, omit_defaults=True):
    provider: str = "parquet"
    options: dict[str, str] = {}


class Protocol(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The versions and features that a client must support to read or write the table."""

    min_reader_version: Count
    min_writer_version: Count
    reader_features: tuple[str, ...] = ()
    writer_features: tuple[str, ...] = ()

    @property
    def features(self) -> frozenset[str]:
        return frozenset(self.writer_features) | frozenset(self.reader_features)


class Metadata(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The metaData action. REPLACE may change its id, so the id is not the table's identity."""

    id: str
    schema_string: str
    partition_columns: tuple[str, ...] = ()
    configuration: dict[str, str] = {}
    name: str | None = None
    description: str | None = None
    format: Format = Format()
    created_time: Long | None = None

    @property
    def is_mapped(self) -> bool:
        """Whether columns have other names in data files (column mapping), and ids that Delta assigned."""
        return self.configuration.get("delta.columnMapping.mode", "none") != "none"


class CommitInfo(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Provenance that the writer records. Most of its fields are free form and are not read.

    `txnId` is not required. Only the writer uses it, to recognize its own commit after a lost response.
    """

    in_commit_timestamp: Long | None = None
    operation: str | None = None
    is_blind_append: bool | None = None
    engine_info: str | None = None


class DomainMetadata(msgspec.Struct, frozen=True):
    domain: str
    configuration: str
    removed: bool = False


class SetTransaction(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The last version that an application wrote. It makes the application's writes exactly-once."""

    app_id: str
    version: Long
    last_updated: Long | None = None


class Line(msgspec.Struct, frozen=True, rename="camel"):
    """One line holds one action: exactly one of these fields is set, or none if the action is unknown."""

    add: AddFile | None = None
    remove: RemoveFile | None = None
    cdc: ChangeFile | None = None
    commit_info: CommitInfo | None = None
    protocol: Protocol | None = None
    meta_data: Metadata | None = None
    txn: SetTransaction | None = None
    domain_metadata: DomainMetadata | None = None
    checkpoint_metadata: dict[str, Any] | None = None
    sidecar: dict[str, Any] | None = None


class _Stats(msgspec.Struct, rename="camel"):
    num_records: Count | None = None


class RowRange(msgspec.Struct, frozen=True, gc=False):
    """The row ids that one added file assigns: one per row, starting at base."""

    path: str
    base: int | None
    rows: int | None
    since: int | None
    """defaultRowCommitVersion: the version that added the file to the table."""


class Summary(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Counts of what a commit changed."""

    adds: int = 0
    removes: int = 0
    cdc: int = 0
    bytes_added: int = 0
    bytes_removed: int = 0
    rows_added: int | None = 0
    """None if an added file does not state its row count."""
    deletion_vectors: int = 0
    data_changes: int = 0
    """How many of the adds and removes have dataChange set."""
    unknown: int = 0


class CommitFile(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a commit file that the catalog keeps."""

    commit_info: CommitInfo | None
    """None if the first line is another action."""
    protocol: Protocol | None
    metadata: Metadata | None
    domains: tuple[DomainMetadata, ...]
    txns: tuple[SetTransaction, ...]
    summary: Summary
    added: tuple[RowRange, ...]
    removed: tuple[str, ...]
    cdc: tuple[str, ...]
    vectors: tuple[DeletionVector, ...]
    """Vectors that name a path. Inline vectors have none, and `u` vectors without a prefix cannot leave the table."""
    adds_deletion_vectors: bool
    """Whether any added file has a deletion vector."""


_decode_line = msgspec.json.Decoder(Line).decode
_decode_all = msgspec.json.Decoder().decode
_encode_again = msgspec.json.Encoder().encode
_decode_stats = msgspec.json.Decoder(_Stats).decode
_KINDS: Final = len(Line.__struct_fields__)


def read_lines(data: bytes) -> Iterator[tuple[int, Line]]:
    """The actions of a commit with their line numbers, starting at 1."""
    for number, text in enumerate(BytesIO(data), 1):
        if text.isspace():
            continue
        try:
            line = _decode_line(text)
            ambiguity = _ambiguity(text, line)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise InvalidInput(f"line {number} of the commit is not a Delta action: {error}", field="file") from None
        if ambiguity is not None:
            raise InvalidInput(f"line {number} of the commit {ambiguity}", field="file")
        yield number, line


def _ambiguity(text: bytes, line: Line) -> str | None:
    """Why clients could read this line differently; None if it is unambiguous."""
    if _KINDS - astuple(line).count(None) > 1:
        return "holds more than one action"
    written = text.rstrip()
    # Most writers use this compact form. A duplicate key would not survive the round trip.
    if _encode_again(_decode_all(text)) == written:
        return None
    if b"\r" in written:
        return "holds a carriage return, which Java treats as the end of a line"
    duplicates: list[bool] = []
    json.loads(text, object_pairs_hook=lambda pairs: duplicates.append(len(dict(pairs)) < len(pairs)))
    return "has a duplicate key" if any(duplicates) else None


def read_commit(data: bytes) -> CommitFile:
    """Read a commit file. Raises InvalidInput if it cannot be a version of any Delta table."""
    reading = _Reading()
    for number, line in read_lines(data):
        reading.take(number, line)
    return reading.commit()


class _Reading:
    """The state of reading one commit."""

    def __init__(self) -> None:
        self.lines = 0
        self.commit_info: CommitInfo | None = None
        self.protocol: Protocol | None = None
        self.metadata: Metadata | None = None
        self.domains: dict[str, DomainMetadata] = {}
        self.txns: dict[str, SetTransaction] = {}
        self.added: dict[str, RowRange] = {}
        self.removed: dict[str, str | None] = {}
        self.cdc: dict[str, None] = {}
        self.vectors: list[DeletionVector] = []
        self.added_vectors: dict[str, str] = {}
        self.counts = dict.fromkeys(("bytes_added", "bytes_removed", "deletion_vectors", "data_changes", "unknown"), 0)
        self.rows_added: int | None = 0

    def take(self, number: int, line: Line) -> None:
        self.lines += 1
        if line.add is not None:  # first, because adds are by far the most frequent
            self._add(line.add)
        elif line.remove is not None:
            self._remove(line.remove)
        elif line.cdc is not None:
            _put_unique(self.cdc, line.cdc.path, None, "cdc")
        else:
            self._take_table_action(number, line)

    def _take_table_action(self, number: int, line: Line) -> None:
        if line.commit_info is not None:
            only = _require_single(self.commit_info, line.commit_info, "commitInfo")
            self.commit_info = only if self.lines == 1 else None
        elif line.protocol is not None:
            self.protocol = _require_single(self.protocol, line.protocol, "protocol")
        elif line.meta_data is not None:
            self.metadata = _require_single(self.metadata, line.meta_data, "metaData")
        elif line.txn is not None:
            _put_unique(self.txns, line.txn.app_id, line.txn, "txn")
        elif line.domain_metadata is not None:
            _put_unique(self.domains, line.domain_metadata.domain, line.domain_metadata, "domainMetadata")
        elif line.checkpoint_metadata is not None or line.sidecar is not None:
            raise InvalidInput(f"line {number} belongs in a checkpoint, not in a commit", field="file")
        else:
            self.counts["unknown"] += 1

    def _add(self, add: AddFile) -> None:
        rows = _rows(add.stats)
        self.rows_added = None if rows is None or self.rows_added is None else self.rows_added + rows
        self.counts["bytes_added"] += add.size
        self.counts["data_changes"] += add.data_change
        row_range = RowRange(add.path, add.base_row_id, rows, add.default_row_commit_version)
        _put_unique(self.added, add.path, row_range, "add")
        if add.deletion_vector is not None:
            self.added_vectors[add.path] = self._vector(add.deletion_vector)

    def _remove(self, remove: RemoveFile) -> None:
        self.counts["bytes_removed"] += remove.size or 0
        self.counts["data_changes"] += remove.data_change
        vector = remove.deletion_vector
        _put_unique(self.removed, remove.path, None if vector is None else self._vector(vector), "remove")

    def _vector(self, vector: DeletionVector) -> str:
        kind, target = vector.storage_type, vector.path_or_inline_dv
        if kind == "u" and len(target) < VECTOR_ID_LENGTH:
            raise InvalidInput(
                f"the deletion vector {target!r} of storage type {kind!r} has fewer than {VECTOR_ID_LENGTH} characters",
                field="file",
            )
        self.counts["deletion_vectors"] += 1
        if kind == "p" or (kind == "u" and len(target) > VECTOR_ID_LENGTH):
            self.vectors.append(vector)
        return vector.unique_id

    def commit(self) -> CommitFile:
        for path in self.added.keys() & self.removed.keys():
            if self.added_vectors.get(path) == self.removed[path]:
                # The actions of a commit have no order, so it would be undefined whether the table has the file.
                raise InvalidInput(f"the commit both adds and removes {path!r}", field="file")
        return CommitFile(
            commit_info=self.commit_info,
            protocol=self.protocol,
            metadata=self.metadata,
            domains=tuple(self.domains.values()),
            txns=tuple(self.txns.values()),
            summary=Summary(
                adds=len(self.added),
                removes=len(self.removed),
                cdc=len(self.cdc),
                rows_added=self.rows_added,
                **self.counts,
            ),
            added=tuple(self.added.values()),
            removed=tuple(self.removed),
            cdc=tuple(self.cdc),
            vectors=tuple(self.vectors),
            adds_deletion_vectors=bool(self.added_vectors),
        )


def _require_single(before: T | None, now: T, kind: str) -> T:
    if before is not None:
        raise InvalidInput(f"the commit has two {kind} actions", field=kind)
    return now


def _put_unique(seen: dict[str, T], key: str, value: T, kind: str) -> None:
    """Add an action. A commit may have only one of each kind per file, application or domain."""
    if key in seen:
        raise InvalidInput(f"the commit has two {kind} actions for {key!r}", field=kind)
    seen[key] = value


def _rows(stats: str | None) -> int | None:
    """numRecords, the only statistic that the catalog uses."""
    if stats is None:
        return None
    try:
        return _decode_stats(stats).num_records
    except (msgspec.MsgspecError, RecursionError):
        return None
