"""Rows: written, merged, changed, deleted, counted."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from datetime import timedelta
from enum import Enum
from typing import TYPE_CHECKING

import msgspec

from moorage.core.errors import InvalidInput, VersionNotFound, VersionTaken
from moorage.datasets.desk import Desk
from moorage.datasets.fields import require_fields

if TYPE_CHECKING:
    from pyarrow import RecordBatch, RecordBatchReader

_MERGE_TRIES = 10
_MERGE_PATIENCE = timedelta(seconds=30)
"""How often and how long to try again while others write, unless the request says how long: pylance's own limits."""


class WriteMode(Enum):
    """What becomes of the rows that are there."""

    APPEND = "append"
    OVERWRITE = "overwrite"


class Merge(msgspec.Struct, frozen=True, kw_only=True):
    """What to do with rows that match a row of the table, and with those that do not."""

    on: tuple[str, ...]
    update_matched: bool
    update_filter: str | None
    insert_unmatched: bool
    delete_unmatched: bool
    delete_filter: str | None
    timeout: timedelta | None
    use_index: bool


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """The version that was made, and how many rows it changed."""

    version: int
    inserted: int = 0
    updated: int = 0
    deleted: int = 0


def create(desk: Desk, stream: bytes) -> Written:
    """The first version of a table."""
    from lance import write_dataset

    incoming = _Incoming(stream, desk)
    dataset = write_dataset(incoming.rows(), mode="create", **desk.write_options)
    return Written(version=dataset.version, inserted=incoming.count)


def write(desk: Desk, stream: bytes, *, branch: str | None, mode: WriteMode) -> Written:
    """Rows at the end of the table, or instead of all others. A table without a version gets its first."""
    from lance import write_dataset

    if branch is None and not desk.has_versions():
        return create(desk, stream)
    incoming = _Incoming(stream, desk)
    dataset = write_dataset(incoming.rows(), desk.open(branch), mode=mode.value)
    return Written(version=dataset.version, inserted=incoming.count)


def merge(desk: Desk, stream: bytes, how: Merge, *, branch: str | None) -> Written:
    """Rows that match one of the table take its place, others are added, as `how` says."""
    from lance.commit import CommitConflictError

    patience = how.timeout or _MERGE_PATIENCE
    until = time.monotonic() + patience.total_seconds()
    for _ in range(_MERGE_TRIES):
        try:
            return _merge_once(desk, stream, how, branch=branch)
        except CommitConflictError:
            if time.monotonic() > until:
                break
    raise VersionTaken(f"others were faster each time, for {patience}; nothing was merged")


def _merge_once(desk: Desk, stream: bytes, how: Merge, *, branch: str | None) -> Written:
    """On the newest version, to become the next one and no later: rows may match what came in between.

    So it is known how many rows it changes before it is committed.
    """
    dataset = desk.open(branch)
    require_fields(dataset, how.on, "on")
    builder = dataset.merge_insert(list(how.on)).use_index(how.use_index)
    if how.update_matched:
        builder.when_matched_update_all(how.update_filter)
    if how.insert_unmatched:
        builder.when_not_matched_insert_all()
    if how.delete_unmatched:
        builder.when_not_matched_by_source_delete(how.delete_filter)
    transaction, done = builder.execute_uncommitted(_Incoming(stream).rows())
    counts = {what: done[f"num_{what}_rows"] for what in ("inserted", "updated", "deleted")}
    desk.namespace.rows = counts
    return Written(version=desk.commit(dataset, transaction).version, **counts)


def update(desk: Desk, updates: Sequence[tuple[str, str]], predicate: str | None, *, branch: str | None) -> Written:
    """Other values for some columns, in all rows or in those for which the predicate holds."""
    dataset = desk.open(branch)
    require_fields(dataset, [path for path, _ in updates], "updates")
    done = dataset.update(dict(updates), where=predicate)
    return Written(version=dataset.version, updated=done["num_rows_updated"])


def updated(desk: Desk, *, branch: str | None, version: int) -> Written:
    """What `update` answered when it made this version: the rows that it wrote anew are those that it changed."""
    transaction = desk.open(branch, version).read_transaction(version)
    if transaction is None:
        raise VersionNotFound(f"version {version} was made before, and nothing more is known of it", field="version")
    written = getattr(transaction.operation, "new_fragments", ())
    return Written(version=version, updated=sum(fragment.physical_rows for fragment in written))


def delete(desk: Desk, predicate: str, *, branch: str | None) -> Written:
    """The rows for which the predicate holds are gone."""
    dataset = desk.open(branch)
    done = dataset.delete(predicate)
    return Written(version=dataset.version, deleted=done["num_deleted_rows"])


def count(desk: Desk, predicate: str | None, *, branch: str | None, version: int | None) -> int:
    rows: int = desk.open(branch, version).count_rows(predicate)
    return rows


def restore(desk: Desk, version: int, *, branch: str | None) -> Written:
    """The table is again as it was at a version: that becomes the newest."""
    dataset = desk.open(branch, version)
    dataset.restore()  # type: ignore[no-untyped-call]
    return Written(version=dataset.version)


class _Incoming:
    """The rows of an Arrow stream, and how many of them were read so far."""

    def __init__(self, stream: bytes, desk: Desk | None = None) -> None:
        """With a desk, the version that they become is told their number."""
        import pyarrow as pa

        if not stream:
            raise InvalidInput("the body must be an Arrow IPC stream; it is empty", field="body")
        self._desk = desk
        self.count = 0
        try:
            self._reader = pa.ipc.open_stream(pa.py_buffer(stream))
        except (pa.ArrowException, OSError) as error:
            raise InvalidInput(f"the body is no Arrow IPC stream: {error}", field="body") from None

    def rows(self) -> RecordBatchReader:
        import pyarrow as pa

        return pa.RecordBatchReader.from_batches(self._reader.schema, self._batches())

    def _batches(self) -> Iterator[RecordBatch]:
        for batch in self._reader:
            self.count += batch.num_rows
            yield batch
        if self._desk is not None:
            self._desk.namespace.rows = {"inserted": self.count}
