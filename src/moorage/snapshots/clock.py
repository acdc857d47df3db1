"""Lookup of the version that a table had at a point in time."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import TYPE_CHECKING

from moorage.core.errors import Damaged, InvalidInput
from moorage.formats.delta.log_commits import Commit, read_commit
from moorage.snapshots.log_files import LogFiles
from moorage.snapshots.log_reader import LogReader
from moorage.snapshots.segments import Step
from moorage.snapshots.table_ref import TableRef
from moorage.snapshots.times import checkpoint_time, file_times, in_commit_times, last_at, writer_timestamp

if TYPE_CHECKING:
    from moorage.snapshots.snapshot import Snapshot


def to_ms(moment: datetime) -> int:
    if moment.tzinfo is None:
        raise InvalidInput(
            f"the timestamp {moment.isoformat()} has no time zone; append one, for example +00:00", field="timestamp"
        )
    return int(moment.timestamp() * 1000)


class Clock:
    """The commit times of a table's versions. A binary search reads only the ones it compares."""

    def __init__(self, reader: LogReader, ref: TableRef, log: LogFiles, newest: Snapshot) -> None:
        self._reader = reader
        self._ref = ref
        self._log = log
        self._newest = newest.version
        self._since = in_commit_times(newest.protocol, newest.metadata)
        self._file_times = file_times(log)
        self.oldest = max(ref.floor, log.oldest or 0)

    async def last_at(self, moment_ms: int) -> int | None:
        """Return the last version committed at or before the moment."""
        since = self._since
        if since is None:
            return await last_at(moment_ms, self.oldest, self._newest, self.time_of)
        # The Delta protocol decides by the moment whether in-commit timestamps or file times apply. If the table
        # was copied, the times of older files are those of the copy, and may be later than the moment.
        if moment_ms >= since.at_ms:
            return await last_at(moment_ms, max(self.oldest, since.version), self._newest, self.time_of)
        return await last_at(moment_ms, self.oldest, since.version - 1, self.time_of)

    async def first_from(self, moment_ms: int) -> int | None:
        """Return the first version committed at or after the moment, or None if every version is older."""
        before = await self.last_at(moment_ms - 1)
        first = self.oldest if before is None else before + 1
        return first if first <= self._newest else None

    async def time_of(self, version: int) -> int:
        if self._since is not None and version >= self._since.version:
            return await self._in_commit_time(version)
        if version in self._file_times:
            return self._file_times[version]
        if version in self._ref.commits:
            return writer_timestamp((await self._commit(version)).commit_info) or 0
        return checkpoint_time(self._log, version)

    async def _in_commit_time(self, version: int) -> int:
        stated = (await self._commit(version)).in_commit_timestamp
        if stated is None:
            raise Damaged(
                f"version {version} of the table has no inCommitTimestamp, although the table enables it",
                table=self._ref.id,
                version=version,
            )
        return stated

    async def _commit(self, version: int) -> Commit:
        source = self._ref.commits.get(version) or self._log.commits.get(version)
        if source is None:
            raise Damaged(f"version {version} is missing from the log", table=self._ref.id, version=version)
        read = await self._reader.read(Step(version, source))
        return await asyncio.to_thread(read_commit, read.data, version=version, source=read.source)
