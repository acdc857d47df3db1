"""Writing, merging, updating, deleting and counting rows."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from datetime import timedelta
from enum import Enum
from typing import TYPE_CHECKING

import msgspec

from moorage.core.errors import InvalidInput, VersionNotFound, VersionTaken
from moorage.datasets.fields import require_fields
from moorage.datasets.job_table import JobTable

if TYPE_CHECKING:
    from pyarrow import RecordBatch, RecordBatchReader

_MERGE_ATTEMPTS = 10
_MERGE_TIMEOUT = timedelta(seconds=30)
"""The limits for retries after conflicts with other writers, as in pylance. A request may set its own timeout."""


class WriteMode(Enum):
    """What happens to the existing rows."""

    APPEND = "append"
    OVERWRITE = "overwrite"


class Merge(msgspec.Struct, frozen=True, kw_only=True):
    """What to do with new rows that match a row of the table, and with rows without a match."""

    on: tuple[str, ...]
    update_matched: bool
    update_filter: str | None
    insert_unmatched: bool
    delete_unmatched: bool
    delete_filter: str | None
    timeout: timedelta | None
    use_index: bool


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """The new version, and the number of rows that it changed."""

    version: int
    inserted: int = 0
    updated: int = 0
    deleted: int = 0


def create(desk: JobTable, stream: bytes) -> Written:
    """Write the first version of a table."""
    from lance import write_dataset

    incoming = _Incoming(stream, desk)
    dataset = write_dataset(incoming.rows(), mode="create", **desk.write_options)
    return Written(version=dataset.version, inserted=incoming.count)


def write(desk: JobTable, stream: bytes, *, branch: str | None, mode: WriteMode) -> Written:
    """Append rows to the table, or replace all its rows. Creates the first version if the table has none."""
    from lance import write_dataset

    if branch is None and not desk.has_versions():
        return create(desk, stream)
    incoming = _Incoming(stream, desk)
    dataset = write_dataset(incoming.rows(), desk.open(branch), mode=mode.value)
    return Written(version=dataset.version, inserted=incoming.count)


def merge(desk: JobTable, stream: bytes, how: Merge, *, branch: str | None) -> Written:
    """Merge rows into the table: `how` decides which are updated, inserted and deleted."""
    from lance.commit import CommitConflictError

    timeout = how.timeout or _MERGE_TIMEOUT
    deadline = time.monotonic() + timeout.total_seconds()
    for _ in range(_MERGE_ATTEMPTS):
        try:
            return _merge_once(desk, stream, how, branch=branch)
        except CommitConflictError:
            if time.monotonic() > deadline:
                break
    raise VersionTaken(f"every attempt within {timeout} conflicted with other writers; nothing was merged; retry later")


def _merge_once(desk: JobTable, stream: bytes, how: Merge, *, branch: str | None) -> Written:
    """Merge into the newest version, and commit as the one directly after it.

    pylance must not rebase the commit, because the rows may match rows that another writer has added. This also
    fixes the number of changed rows before the commit.
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


def update(desk: JobTable, updates: Sequence[tuple[str, str]], predicate: str | None, *, branch: str | None) -> Written:
    """Set columns to new values, in all rows or in those that match the predicate."""
    dataset = desk.open(branch)
    require_fields(dataset, [path for path, _ in updates], "updates")
    done = dataset.update(dict(updates), where=predicate)
    return Written(version=dataset.version, updated=done["num_rows_updated"])


def updated(desk: JobTable, *, branch: str | None, version: int) -> Written:
    """Return what `update` returned when it created this version. The rows that it rewrote are those it changed."""
    transaction = desk.open(branch, version).read_transaction(version)
    if transaction is None:
        raise VersionNotFound(
            f"version {version} was committed, but its transaction is not recorded, so the result is unknown",
            field="version",
        )
    written = getattr(transaction.operation, "new_fragments", ())
    return Written(version=version, updated=sum(fragment.physical_rows for fragment in written))


def delete(desk: JobTable, predicate: str, *, branch: str | None) -> Written:
    """Delete the rows that match the predicate."""
    dataset = desk.open(branch)
    done = dataset.delete(predicate)
    return Written(version=dataset.version, deleted=done["num_deleted_rows"])


def count(desk: JobTable, predicate: str | None, *, branch: str | None, version: int | None) -> int:
    rows: int = desk.open(branch, version).count_rows(predicate)
    return rows


def restore(desk: JobTable, version: int, *, branch: str | None) -> Written:
    """Commit the content of an older version as the newest version."""
    dataset = desk.open(branch, version)
    dataset.restore()  # type: ignore[no-untyped-call]
    return Written(version=dataset.version)


class _Incoming:
    """The rows of an Arrow stream, and the number of rows read so far."""

    def __init__(self, stream: bytes, desk: JobTable | None = None) -> None:
        """With a desk, the number of rows is recorded in the version that they become."""
        import pyarrow as pa

        if not stream:
            raise InvalidInput("the body is empty; it must be an Arrow IPC stream", field="body")
        self._desk = desk
        self.count = 0
        try:
            self._reader = pa.ipc.open_stream(pa.py_buffer(stream))
        except (pa.ArrowException, OSError) as error:
            raise InvalidInput(f"the body is not an Arrow IPC stream: {error}", field="body") from None

    def rows(self) -> RecordBatchReader:
        import pyarrow as pa

        return pa.RecordBatchReader.from_batches(self._reader.schema, self._batches())

    def _batches(self) -> Iterator[RecordBatch]:
        for batch in self._reader:
            self.count += batch.num_rows
            yield batch
        if self._desk is not None:
            self._desk.namespace.rows = {"inserted": self.count}
