"""The ledger in one SQLite file."""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, ClassVar, Literal, cast

from moorage.core.entries import Draft, Entry, JobState, Receipt
from moorage.core.ids import Fence, JobId, SecurableId, Seq
from moorage.core.jobs import Job, Lease
from moorage.core.reports import ReportKind
from moorage.core.securables import MAIN, Head, Kind, Securable, Shelf
from moorage.ledger import rows
from moorage.ledger.cache import Memory
from moorage.ledger.genesis import first_draft
from moorage.ledger.port import LATEST, Below, Found, Listing, Position, Report, Staged, Step, Version
from moorage.ledger.sqlite import notes, queries
from moorage.ledger.sqlite.checkpoints import Checkpointer, preallocate_log
from moorage.ledger.sqlite.checks import holder_query
from moorage.ledger.sqlite.connections import FILE, connect, lock_folder, migrate, require_not_moved
from moorage.ledger.sqlite.jobs import lease_job, renew_lease, requeue_job
from moorage.ledger.sqlite.writer import Note, Writer

log = logging.getLogger(__name__)


def _wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


def _last_position(db: sqlite3.Connection) -> Position:
    found = db.execute(f"select * from {rows.LAST_ENTRY}").fetchone()
    return Position(*found) if found else Position(Seq(0), 0, 0)


def _exit_now(reason: str) -> None:
    """End the process. After a failed COMMIT only recovery can determine the outcome."""
    log.critical("%s; the process exits, and the next start recovers the ledger", reason)
    os._exit(70)


class SqliteLedger:
    """Reads run inline: on the writer's connection while it is idle, otherwise on a second one."""

    kind: ClassVar[Literal["sqlite", "postgresql"]] = "sqlite"

    def __init__(self, folder: Path, clock_ms: Callable[[], int], fatal: Callable[[str], None]) -> None:
        self._clock_ms = clock_ms
        self._memory = Memory()
        self._news: set[asyncio.Future[None]] = set()
        self.root = SecurableId("")
        file = folder / FILE
        require_not_moved(folder)
        with ExitStack() as opened:  # a refused folder is unlocked, so that it can be repaired
            self._lock = opened.enter_context(lock_folder(folder))
            self._reading = opened.enter_context(closing(connect(file)))
            migrate(self._reading)
            preallocate_log(file)
            self._position = _last_position(self._reading)
            self._writing = opened.enter_context(closing(connect(file)))
            self._checkpointer = Checkpointer(file)
            self._writer = Writer(
                self._writing,
                self._position,
                clock_ms=clock_ms,
                on_batch=self._on_batch,
                on_entry=lambda draft, at_ms: self._memory.follow(draft.changes, at_ms, draft.caller),
                is_blocked=lambda: self._checkpointer.blocks_writers,
                fatal=fatal,
            )
            opened.pop_all()

    @classmethod
    async def open(
        cls,
        folder: Path,
        *,
        clock_ms: Callable[[], int] = _wall_clock_ms,
        fatal: Callable[[str], None] = _exit_now,
        first: Callable[[], Draft] = first_draft,
    ) -> SqliteLedger:
        """Open the ledger of a data folder, and create or upgrade it. Only one process may have it open.

        `first`: makes the first draft of a new ledger.
        """
        ledger = cls(folder, clock_ms, fatal)
        try:
            if ledger._position.seq == 0:
                await ledger.append(first())
            ledger.root = ledger._rows("select id from securable where kind = 'metastore'")[0][0]
        except BaseException:
            await ledger.close()
            raise
        return ledger

    def append(self, draft: Draft) -> Awaitable[Receipt]:
        return self._writer.submit(draft)

    async def close(self) -> None:
        await self._writer.close()
        await asyncio.to_thread(self._checkpointer.close)
        self._reading.close()
        self._lock.close()

    # --- reads ---------------------------------------------------------------------------------

    @property
    def known_access_seq(self) -> int:
        return self._position.access_seq

    async def position(self) -> Position:
        return _last_position(self._connection())

    async def walk(self, steps: Sequence[Step], *, since: Seq | None = None) -> Found:
        cached = self._memory.walk(self.root, steps)
        if len(cached) == len(steps):
            return Found(self._position, cached)
        found = self._walk(cached[-1].id if cached else self.root, steps[len(cached) :])
        if found.position != self._position:
            # A commit may be on disk although its caller has no response yet. The cache will be updated with it.
            # If its result were cached here, the change would be applied twice, or an old name outlive a rename.
            return self._walk(self.root, steps) if cached else found
        chain = (*cached, *found.chain)
        if found.chain:
            self._memory.learn(chain)
        return Found(found.position, chain)

    def _walk(self, parent: SecurableId, steps: Sequence[Step]) -> Found:
        args: list[Any] = [parent]
        for step in steps:
            args += (step.shelf.value, step.key)
        row = self._rows(queries.walk_sql(len(steps)), *args)[0]
        chain: list[Securable] = []
        for n in range(len(steps)):
            columns = row[3 + n * queries.WIDTH : 3 + (n + 1) * queries.WIDTH]
            if columns[0] is None:
                break
            last = n + 1 == len(steps)
            chain.append(rows.securable(columns, rows.head(row[3 + len(steps) * queries.WIDTH :]) if last else None))
        return Found(Position(*row[:3]), tuple(chain))

    async def lineage(self, id: SecurableId) -> Found:
        cached = self._memory.climb(self.root, id) if id != self.root else None
        if cached is not None:
            return Found(self._position, cached)
        found = self._rows(queries.LINEAGE, id)
        if not found:
            return Found(self._position, ())
        chain = [rows.securable(row, rows.head(row[queries.WIDTH :])) for row in found]
        if len(chain) > 1 and chain[0].kind is Kind.METASTORE:
            del chain[0]
        position = Position(*found[0][-3:])
        # As in walk: the cache is updated later with commits whose callers have no response yet.
        if position == self._position and id != self.root and all(part.is_live for part in chain):
            self._memory.learn(chain)
        return Found(position, tuple(chain))

    async def children(
        self,
        parent: SecurableId,
        shelf: Shelf,
        *,
        after: str = "",
        limit: int = 100,
        kinds: Sequence[Kind] = (),
        since: Seq | None = None,
    ) -> Listing:
        page = (parent, shelf, after, limit, tuple(kinds))
        if (known := self._memory.page(page)) is not None:
            return Listing(self._position, known)
        only = f"and s.kind in ({', '.join(repr(kind.value) for kind in kinds)})" if kinds else ""
        where = (
            f"where s.parent = ? and s.shelf = ? and s.name_key > ? and s.dropped_at is null {only} "
            "order by s.name_key limit ?"
        )
        args = (parent, shelf.value, after, limit)
        # Reading ids costs a tenth of reading rows, and most listed objects have not changed.
        found = self._rows(f"select s.id, e.seq from securable s cross join {rows.LAST_ENTRY} e {where}", *args)
        if not found:
            return Listing(self._position, ())
        # The cache includes everything up to the ledger position, and nothing after it.
        if found[0][1] == self._position.seq:
            ids = tuple([row[0] for row in found])
            if (known := self._memory.recall(ids)) is not None:
                self._memory.add_page(page, ids)
                return Listing(self._position, known)
        listing = self._listing(where, args)
        if listing.position == self._position:
            self._memory.add_children(listing.items)
        return listing

    async def ids_on(self, shelf: Shelf, *, after: str = "", limit: int = 100) -> tuple[SecurableId, ...]:
        return tuple([SecurableId(id) for (id,) in self._rows(queries.ids_on_sql(shelf), after, limit)])

    async def dropped(
        self, parent: SecurableId, shelf: Shelf, *, after: tuple[int, str] = LATEST, limit: int = 100
    ) -> Listing:
        return self._listing(
            "where s.parent = ? and s.shelf = ? and s.dropped_at <= ? and (s.dropped_at < ? or s.id > ?) "
            "and s.purged = 0 order by s.dropped_at desc, s.id limit ?",
            (parent, shelf.value, after[0], *after, limit),
        )

    def _listing(self, where: str, args: tuple[Any, ...]) -> Listing:
        found = self._rows(f"{queries.LISTED} {where}", *args)
        if not found:
            # Not a second statement: it could return the position of an entry that the first did not see.
            return Listing(self._position, ())
        return Listing(
            Position(*found[0][-3:]), tuple(rows.securable(row, rows.head(row[queries.WIDTH :])) for row in found)
        )

    async def head(self, table: SecurableId, ref: str = MAIN) -> Head | None:
        found = self._rows(
            f"select {rows.head_columns('h', 'p')} from head h left join published p using (table_id, ref) "
            "where h.table_id = ? and h.ref = ?",
            table,
            ref,
        )
        return rows.head(found[0]) if found else None

    async def versions(
        self,
        table: SecurableId,
        ref: str = MAIN,
        *,
        first: int = 0,
        last: int | None = None,
        limit: int = 1000,
        descending: bool = False,
    ) -> tuple[Version, ...]:
        last = 2**62 if last is None else last
        newest = self._memory.newest(table) if ref == MAIN else None
        is_newest_enough = descending and limit == 1
        if newest is not None and first <= newest.version <= last and (first == newest.version or is_newest_enough):
            return (newest,)
        found = self._rows(
            f"select {rows.VERSION_COLUMNS} from version where table_id = ? and ref = ? and version >= ? "
            f"and version <= ? order by version {'desc ' if descending else ''}limit ?",
            table,
            ref,
            first,
            last,
            limit,
        )
        versions = tuple(map(rows.version, found))
        if ref == MAIN and len(versions) == 1:
            self._memory.add_version(versions[0])
        return versions

    async def count_versions(self, table: SecurableId, ref: str, first: int, last: int) -> int:
        asked = "select count(*) from version where table_id = ? and ref = ? and version between ? and ?"
        return cast(int, self._rows(asked, table, ref, first, last)[0][0])

    async def document(self, table: SecurableId, ref: str, version: int) -> bytes | None:
        found = self._rows(
            "select bytes from document where table_id = ? and ref = ? and version = ?", table, ref, version
        )
        return found[0][0] if found else None

    async def receipt(self, caller: str, key: str) -> tuple[str, Receipt] | None:
        found = self._rows(
            "select print, seq, at_ms, outcome from receipt where caller = ? and key = ? and until_ms >= ?",
            caller,
            key,
            self._now_ms(),
        )
        return (found[0][0], rows.receipt(*found[0][1:])) if found else None

    async def entries(self, after: int, *, limit: int = 100) -> tuple[Entry, ...]:
        found = self._rows(f"select {rows.ENTRY_COLUMNS} from entry where seq > ? order by seq limit ?", after, limit)
        return tuple(map(rows.entry, found))

    async def wait_for_entry_after(self, seq: int, timeout_s: float) -> bool:
        deadline = self._loop_time() + timeout_s
        while self._position.seq <= seq:
            news = asyncio.get_running_loop().create_future()
            self._news.add(news)
            try:
                await asyncio.wait_for(news, deadline - self._loop_time())
            except TimeoutError:
                return False
            finally:
                self._news.discard(news)
        return True

    async def job(self, id: JobId) -> Job | None:
        return self._job("where job.id = ?", id)

    async def open_job(self, dedupe: str) -> Job | None:
        return self._job("where job.dedupe = ? and job.state = 'open'", dedupe)

    def _job(self, where: str, *args: Any) -> Job | None:
        found = self._rows(f"{queries.JOB} {where}", *args)
        return rows.job(found[0], self._now_ms()) if found else None

    async def jobs(
        self,
        *,
        state: JobState | None = None,
        kind: str | None = None,
        subject: SecurableId | None = None,
        after: str = "",
        limit: int = 100,
        descending: bool = False,
    ) -> tuple[Job, ...]:
        now_ms = self._now_ms()
        where, args = ("where (?1 = '' or job.id < ?1)" if descending else "where job.id > ?"), [after]
        if subject is not None:
            where, args = f"{where} and job.subject = ?", [*args, subject]
        if kind is not None:
            where, args = f"{where} and job.kind = ?", [*args, kind]
        if state in (JobState.QUEUED, JobState.RUNNING):
            sign = ">" if state is JobState.RUNNING else "<="
            where = f"{where} and job.state = 'open' and coalesce(lease.until_ms, 0) {sign} {now_ms}"
        elif state is not None:
            where, args = f"{where} and job.state = ?", [*args, state.value]
        order = "job.id desc" if descending else "job.id"
        found = self._rows(f"{queries.JOB} {where} order by {order} limit ?", *args, limit)
        return tuple(rows.job(row, now_ms) for row in found)

    async def due_jobs(self, *, limit: int = 100) -> tuple[Job, ...]:
        now_ms = self._now_ms()
        return tuple(rows.job(row, now_ms) for row in self._rows(queries.DUE_JOBS, now_ms, now_ms, limit))

    # --- notes ---------------------------------------------------------------------------------

    async def lease_job(self, worker: str, kinds: Sequence[str], fence: Fence, lease_ms: int) -> Lease | None:
        return cast(Lease | None, await self._note(lease_job(worker, tuple(kinds), fence, lease_ms)))

    async def renew_lease(self, job: JobId, fence: Fence, lease_ms: int, progress: dict[str, Any] | None) -> int | None:
        return cast(int | None, await self._note(renew_lease(job, fence, lease_ms, progress)))

    async def requeue_job(
        self, job: JobId, fence: Fence, delay_ms: int, error: str, *, is_failure: bool = True
    ) -> bool:
        return cast(bool, await self._note(requeue_job(job, fence, delay_ms, error, is_failure=is_failure)))

    async def staged(
        self, *, older_than_ms: int = 0, after: tuple[str, str, int] = ("", "", -1), limit: int = 100
    ) -> tuple[Staged, ...]:
        return tuple(map(rows.staged, self._rows(queries.STAGED, self._now_ms() - older_than_ms, *after, limit)))

    async def record_published(self, table: SecurableId, ref: str, version: int, *, by_client: bool = False) -> None:
        async def note_and_cache() -> None:
            await self._note(notes.record_published(table, ref, version, by_client=by_client))
            if ref == MAIN:
                self._memory.publish(table, version, claimed=version if by_client else -1)

        # The note is written even if the caller is cancelled, so the cache must be updated even then.
        await asyncio.shield(asyncio.create_task(note_and_cache()))

    async def record_durable(self, versions: Mapping[tuple[SecurableId, str], int]) -> None:
        await self._note(notes.record_durable(versions))

    async def store_report(
        self, table: SecurableId, version: int, body: bytes, *, kind: ReportKind = ReportKind.COMMIT
    ) -> None:
        await self._note(notes.store_report(table, version, body, kind))

    async def reports(
        self, table: SecurableId, *, kind: ReportKind = ReportKind.COMMIT, after: int = -1, limit: int = 100
    ) -> tuple[Report, ...]:
        found = self._rows(
            f"select {rows.REPORT_COLUMNS} from report"
            " where table_id = ? and kind = ? and version > ? order by version limit ?",
            table,
            kind,
            after,
            limit,
        )
        return tuple(map(rows.report, found))

    async def delete_reports(self, table: SecurableId, *, kind: ReportKind, below: int, limit: int = 1000) -> int:
        return int(await self._note(notes.delete_reports(table, kind, below, limit)))

    async def due_for_purge(self, *, after: tuple[int, str] = (-1, ""), limit: int = 100) -> tuple[Securable, ...]:
        return tuple(map(rows.securable, self._rows(queries.DUE, self._now_ms(), *after, limit)))

    async def location_holder(self, path: str) -> SecurableId | None:
        found = self._rows(*holder_query(path))
        return SecurableId(found[0][0]) if found else None

    async def all_children(self, parent: SecurableId, limit: int = 500) -> tuple[Below, ...]:
        found = self._rows(rows.below_sql("?1", "?2"), parent, limit)
        return tuple(Below(rows.securable(row), bool(row[queries.WIDTH])) for row in found)

    async def delete_expired_receipts(self, limit: int = 1000) -> int:
        return cast(int, await self._note(notes.delete_expired_receipts(limit)))

    async def page_secret(self) -> bytes:
        return cast(bytes, await self._note(notes.page_secret))

    # --- internals -----------------------------------------------------------------------------

    def _rows(self, sql: str, *args: Any) -> list[Any]:
        return self._connection().execute(sql, args).fetchall()

    def _connection(self) -> sqlite3.Connection:
        """The writer's connection if idle: it has the written pages cached. Others read them again after each batch."""
        return self._writing if self._writer.is_idle else self._reading

    def _now_ms(self) -> int:
        return max(self._position.at_ms, self._clock_ms())

    @staticmethod
    def _loop_time() -> float:
        return asyncio.get_running_loop().time()

    async def _note(self, note: Note) -> Any:
        return await self._writer.submit(note)

    def _on_batch(self, position: Position) -> None:
        if position.seq > self._position.seq:
            self._position = position
            for news in self._news:
                if not news.done():
                    news.set_result(None)
        self._checkpointer.wake()
