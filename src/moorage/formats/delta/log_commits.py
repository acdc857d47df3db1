"""Commits of a Delta log, read completely: every file action with all its fields.

The reader of staged commits (`actions`) keeps only what ratifying needs. This module reads the log for readers
of snapshots and changes, and for projections.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeVar

import msgspec

from moorage.core.errors import Damaged
from moorage.formats.delta.actions import DomainMetadata, Metadata, Protocol, SetTransaction
from moorage.formats.delta.file_actions import AddFile, ChangeFile, Count, Long, RemoveFile

T = TypeVar("T")

_PIECE: Final = 256 * 1024


class Sidecar(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A file with a part of a checkpoint's file actions."""

    path: str
    size_in_bytes: Count
    modification_time: Long


class Line(msgspec.Struct, rename="camel", gc=False):
    """One action. Unknown actions and fields are ignored: they are never needed to read a log."""

    add: AddFile | None = None
    remove: RemoveFile | None = None
    cdc: ChangeFile | None = None
    meta_data: Metadata | None = None
    protocol: Protocol | None = None
    txn: SetTransaction | None = None
    domain_metadata: DomainMetadata | None = None
    commit_info: dict[str, Any] | None = None
    sidecar: Sidecar | None = None


class Commit(msgspec.Struct, frozen=True, kw_only=True):
    """The actions of one version, or of a compacted range of versions."""

    version: int
    files: tuple[AddFile | RemoveFile, ...] = ()
    """In the order of the log. The last action decides if a writer named a file twice."""
    cdc: tuple[ChangeFile, ...] = ()
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    transactions: tuple[SetTransaction, ...] = ()
    domains: tuple[DomainMetadata, ...] = ()
    commit_info: dict[str, Any] | None = None

    @property
    def adds(self) -> tuple[AddFile, ...]:
        return tuple(file for file in self.files if isinstance(file, AddFile))

    @property
    def removes(self) -> tuple[RemoveFile, ...]:
        return tuple(file for file in self.files if isinstance(file, RemoveFile))

    @property
    def in_commit_timestamp(self) -> int | None:
        timestamp = (self.commit_info or {}).get("inCommitTimestamp")
        return timestamp if isinstance(timestamp, int) else None


_line = msgspec.json.Decoder(Line)


def read_lines(data: bytes, source: str) -> list[Line]:
    """The actions of a commit, a compacted log or a JSON checkpoint. Damaged names the invalid line."""
    try:
        return [line for piece in _pieces(data) for line in _line.decode_lines(piece)]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Damaged(f"{source} is damaged: {_first_error(data) or error}", file=source) from None


def _pieces(data: bytes) -> Iterator[bytes]:
    """Split the text after line ends. While one piece is decoded, no other thread of the process can run."""
    start = 0
    while len(data) - start > _PIECE:
        end = data.find(b"\n", start + _PIECE) + 1
        if not end:
            break
        yield data[start:end]
        start = end
    yield data[start:] if start else data


def _first_error(data: bytes) -> str | None:
    for number, text in enumerate(data.splitlines(), 1):
        try:
            if text.strip():
                _line.decode(text)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            return f"line {number} is not a Delta action ({error})"
    return None


def read_commit(data: bytes, *, version: int, source: str) -> Commit:
    """One commit of the log, or a compacted range of commits that ends with this version."""
    lines = read_lines(data, source)
    return Commit(
        version=version,
        files=tuple(file for line in lines if (file := line.add or line.remove) is not None),
        cdc=tuple(line.cdc for line in lines if line.cdc is not None),
        protocol=_last([line.protocol for line in lines if line.protocol is not None]),
        metadata=_last([line.meta_data for line in lines if line.meta_data is not None]),
        transactions=tuple(line.txn for line in lines if line.txn is not None),
        domains=tuple(line.domain_metadata for line in lines if line.domain_metadata is not None),
        commit_info=_last([line.commit_info for line in lines if line.commit_info is not None]),
    )


def _last(found: list[T]) -> T | None:
    return found[-1] if found else None
