"""The CPU-bound part of reading a log: it turns bytes into states, and runs on threads.

Importing this module loads Arrow, which takes as long as the rest of the server's start. Other modules therefore
import it only when they have read the first bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from moorage.core.errors import Damaged
from moorage.formats.delta import checkpoints
from moorage.formats.delta.checkpoints import Piece
from moorage.formats.delta.log_commits import Commit, read_commit
from moorage.formats.delta.replay import LogState, advance
from moorage.snapshots.confinement import require_commit_inside, require_files_inside
from moorage.snapshots.readable import require_readable
from moorage.snapshots.snapshot import Snapshot
from moorage.snapshots.table_ref import TableRef
from moorage.storage.port import Listed

SLICE = 32 * 1024 * 1024
"""Commits up to this size are replayed together, because each pass over all older files has a cost."""
PIECE = 4 * 1024 * 1024


class Read(NamedTuple):
    """The bytes of a commit, or of a log compaction that ends with this version."""

    version: int
    data: bytes
    source: str


def read_piece(data: bytes, source: str, location: str) -> Piece:
    """Parse one file of a checkpoint."""
    read = checkpoints.read_json if source.endswith(".json") else checkpoints.read_parquet
    piece = read(data, source)
    require_files_inside(piece.files, location)
    return piece


def starting_state(version: int, pieces: Sequence[Piece], source: str) -> LogState:
    return checkpoints.state_of(version, pieces, source)


def state_after(state: LogState | None, reads: Sequence[Read], location: str) -> LogState:
    """Return the state after replaying these reads, oldest first. None means an empty state."""
    after = state or LogState()
    batch: list[Commit] = []
    size = 0
    for read in (part for whole in reads for part in _slices(whole)):
        batch.append(read_changes(read, location))
        size += len(read.data)
        if size > SLICE:
            after, size = _advance(after, batch), 0
    return _advance(after, batch)


def _advance(state: LogState, batch: list[Commit]) -> LogState:
    after = advance(state, batch)
    while batch:  # one by one: freeing all actions at once would hold up every other thread for 10 ms
        batch.pop()
    return after


def _slices(read: Read) -> Iterator[Read]:
    """Split a large commit: the actions of a million files take ten times the memory of their bytes."""
    start = 0
    while len(read.data) - start > PIECE:
        end = read.data.find(b"\n", start + PIECE) + 1
        if not end:
            break
        yield read._replace(data=read.data[start:end])
        start = end
    yield read._replace(data=read.data[start:]) if start else read


def read_changes(read: Read, location: str) -> Commit:
    commit = read_commit(read.data, version=read.version, source=read.source)
    require_commit_inside(commit, location)
    return commit


def with_commit_info(state: LogState, read: Read) -> LogState:
    """Add the commitInfo of a version to its state: checkpoints and log compactions omit it."""
    return replace(state, commit_info=read_commit(read.data, version=read.version, source=read.source).commit_info)


def snapshot_of(ref: TableRef, state: LogState, *, timestamp_ms: int, seen: Listed | None) -> Snapshot:
    if state.protocol is None or state.metadata is None:
        raise Damaged(f"the log at {ref.location} has no protocol or no metaData", table=ref.id)
    require_readable(state.protocol, is_catalog_managed=ref.latest is not None)
    return Snapshot(
        table=ref.id,
        location=ref.root,
        timestamp_ms=timestamp_ms,
        protocol=state.protocol,
        metadata=state.metadata,
        state=state,
        seen=seen,
    )
