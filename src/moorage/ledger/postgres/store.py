"""The ledger in a PostgreSQL database, shared by any number of servers."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import Any, ClassVar, Final, Literal

import asyncpg

from moorage.core.entries import Draft, Entry, JobState, Receipt
from moorage.core.errors import InvalidInput, Unavailable
from moorage.core.ids import Fence, JobId, SecurableId, Seq
from moorage.core.jobs import Job, Lease, recent_lease_ms
from moorage.core.locations import enclosing_locations, range_inside
from moorage.core.reports import ReportKind
from moorage.core.securables import MAIN, Head, Kind, Securable, Shelf
from moorage.ledger import rows
from moorage.ledger.genesis import first_draft
from moorage.ledger.port import LATEST, Below, Found, Listing, Position, Report, Staged, Stale, Step, Version
from moorage.ledger.postgres import connections, queries
from moorage.ledger.postgres.chains import Path, climbed, listed, walk_statement, walked
from moorage.ledger.postgres.feed_cache import FeedCache
from moorage.ledger.postgres.lookups import SharedLookups
from moorage.ledger.postgres.readers import Readers
from moorage.ledger.postgres.writer import Writer

log = logging.getLogger(__name__)

_POLL_S: Final = 0.1
_RETRY_DELAY_S: Final = 0.05
_WIDTH: Final = len(rows.SECURABLE_COLUMNS)


class PostgresLedger:
    """Reads share a few connections. Drafts are written in batches through one connection per process."""

    kind: ClassVar[Literal["sqlite", "postgresql"]] = "postgresql"

    def __init__(self, readers: Readers, clock_ms: Callable[[], int] | None, patience_s: float) -> None:
        self._readers = readers
        self._clock_ms = clock_ms
        self._patience_s = patience_s
        self._unreachable_since: float | None = None
        self._walks = SharedLookups(self._walk_many, alike=len)
        self._lineages = SharedLookups(self._lineages_many)
        self._cache = FeedCache(self._rows)
        self._writer: Writer | None = None
        self._secret = b""
        self._root = SecurableId("")
        self._newest = 0
        self._polled_at = 0.0
        self._news: set[asyncio.Future[None]] = set()

    @classmethod
    async def open(
        cls,
        url: str,
        *,
        clock_ms: Callable[[], int] | None = None,
        migrate: bool = True,
        patience_s: float = 10.0,
        answer_s: float = 15.0,
        readers: int = 8,
        first: Callable[[], Draft] = first_draft,
    ) -> PostgresLedger:
        """Open the ledger of a database, and create or upgrade it unless `migrate` is false.

        `patience_s`: how long reads and drafts wait for a database that is unreachable.
        `answer_s`: how long a read waits for its result; drafts wait twice as long. It is half of the time limit of a
        request, so that one retry fits in.
        `first`: makes the first draft of a new ledger.
        """
        try:
            connection = await connections.connect(url)
            try:
                await connections.require_suitable(connection)
                await (connections.migrate if migrate else connections.require_migrated)(connection)
            finally:
                await connection.close()
            ledger = cls(Readers(url, readers, answer_s=answer_s), clock_ms, patience_s)
            try:
                ledger._writer = await Writer.open(
                    url,
                    clock_ms=clock_ms,
                    patience_s=patience_s,
                    answer_s=2 * answer_s,
                    on_append=ledger._on_append,
                )
                await ledger._begin(first)
            except BaseException:
                await ledger.close()
                raise
        except asyncpg.TargetServerAttributeNotMatched as error:
            raise InvalidInput(connections.REPLICA, field="database") from error
        except asyncpg.ProtocolViolationError as error:  # PgBouncer, for settings that it does not support
            raise InvalidInput(connections.POOLED, field="database") from error
        except asyncpg.ClientConfigurationError as error:
            raise InvalidInput(f"this is not the address of a database: {error}", field="database") from error
        except (*connections.LOST, asyncpg.PostgresError) as error:
            raise Unavailable(
                f"cannot open the database: {str(error) or 'no answer in time'}; check its address, the rights of its "
                "user, and that it is running"
            ) from error
        return ledger

    async def _begin(self, first: Callable[[], Draft]) -> None:
        # The secret is written first: once the first entry is durable, earlier writes are durable too.
        await self._value("insert into secret values ('page', $1) on conflict do nothing", os.urandom(32))
        self._secret = await self._value("select value from secret where name = 'page'")
        if (await self.position()).seq == 0:
            with suppress(Stale):  # another server wrote the first entry
                await self.append(first())
        self._root = await self._value("select id from securable where parent = '' and shelf = 'metastore'")

    @property
    def root(self) -> SecurableId:
        return self._root

    async def append(self, draft: Draft) -> Receipt:
        if self._writer is None:
            raise Unavailable("the ledger is not open")
        return await self._writer.submit(draft)

    async def close(self) -> None:
        if self._writer is not None:
            await self._writer.close()
        await self._readers.close()

    # --- reads ---------------------------------------------------------------------------------

    @property
    def known_access_seq(self) -> None:
        return None

    async def position(self) -> Position:
        found = await self._rows(f"select * from {rows.LAST_ENTRY} e")
        return Position(*found[0]) if found else Position(Seq(0), 0, 0)

    async def walk(self, steps: Sequence[Step], *, since: Seq | None = None) -> Found:
        if not steps:
            return Found(await self.position(), ())
        cached = await self._cache.walk(self._root, steps, since)
        if cached is not None:
            return cached
        found = await self._walks.answer(tuple(steps))
        await self._cache.learn(found)
        return found

    async def _walk_many(self, paths: Sequence[Path]) -> list[Found]:
        return walked(len(paths[0]), await self._rows(*walk_statement(self._root, paths)))

    async def lineage(self, id: SecurableId) -> Found:
        if id == self._root:
            return await self._lineages.answer(id)
        cached = await self._cache.climb(self._root, id)
        if cached is not None:
            return cached
        found = await self._lineages.answer(id)
        await self._cache.learn(found)
        return found

    async def _lineages_many(self, ids: Sequence[SecurableId]) -> list[Found]:
        return climbed(ids, await self._rows(queries.LINEAGES, ids))

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
        cached = await self._cache.page(page, since)
        if cached is not None:
            return cached
        only = [kind.value for kind in kinds] or None
        listing = listed(await self._rows(queries.CHILDREN, parent, shelf.value, limit, after, only))
        await self._cache.learn_page(page, listing)
        return listing

    async def ids_on(self, shelf: Shelf, *, after: str = "", limit: int = 100) -> tuple[SecurableId, ...]:
        return tuple([SecurableId(row[0]) for row in await self._rows(queries.ids_on_sql(shelf), after, limit)])

    async def dropped(
        self, parent: SecurableId, shelf: Shelf, *, after: tuple[int, str] = LATEST, limit: int = 100
    ) -> Listing:
        return listed(await self._rows(queries.DROPPED, parent, shelf.value, limit, *after))

    async def head(self, table: SecurableId, ref: str = MAIN) -> Head | None:
        found = await self._rows(queries.HEAD, table, ref)
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
        asked = queries.VERSIONS_DESCENDING if descending else queries.VERSIONS
        found = await self._rows(asked, table, ref, first, 2**62 if last is None else last, limit)
        return tuple(map(rows.version, found))

    async def count_versions(self, table: SecurableId, ref: str, first: int, last: int) -> int:
        found: int = await self._value(queries.COUNT_VERSIONS, table, ref, first, last)
        return found

    async def document(self, table: SecurableId, ref: str, version: int) -> bytes | None:
        found: bytes | None = await self._value(queries.DOCUMENT, table, ref, version)
        return found

    async def receipt(self, caller: str, key: str) -> tuple[str, Receipt] | None:
        found = await self._rows(queries.RECEIPT, caller, key, self._given_ms())
        return (found[0][0], rows.receipt(*found[0][1:])) if found else None

    async def entries(self, after: int, *, limit: int = 100) -> tuple[Entry, ...]:
        found = await self._rows(queries.ENTRIES, after, limit)
        return tuple(map(rows.entry, found))

    async def wait_for_entry_after(self, seq: int, timeout_s: float) -> bool:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        while self._newest <= seq:
            # Other servers append too. One of the waiting callers polls for their entries ten times a second.
            if loop.time() - self._polled_at >= _POLL_S:
                self._polled_at = loop.time()
                self._announce((await self.position()).seq)
                continue
            left = min(deadline - loop.time(), _POLL_S)
            if left <= 0:
                return False
            news = loop.create_future()
            self._news.add(news)
            await asyncio.wait((news,), timeout=left)
            self._news.discard(news)
        return True

    async def job(self, id: JobId) -> Job | None:
        return await self._job("where job.id = $2", id)

    async def open_job(self, dedupe: str) -> Job | None:
        return await self._job("where job.dedupe = $2 and job.state = 'open'", dedupe)

    async def _job(self, where: str, *args: Any) -> Job | None:
        found = await self._rows(f"{queries.JOB} {where}", self._given_ms(), *args)
        return rows.job(found[0], found[0]["now_ms"]) if found else None

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
        stored, running = (None if state is None else state.value), None
        if state in (JobState.QUEUED, JobState.RUNNING):
            stored, running = "open", state is JobState.RUNNING
        asked = queries.JOBS_DESCENDING if descending else queries.JOBS
        found = await self._rows(asked, self._given_ms(), after, kind, stored, running, limit, subject)
        return tuple(rows.job(row, row["now_ms"]) for row in found)

    async def due_jobs(self, *, limit: int = 100) -> tuple[Job, ...]:
        found = await self._rows(queries.DUE_JOBS, self._given_ms(), limit)
        return tuple(rows.job(row, row["now_ms"]) for row in found)

    # --- notes ---------------------------------------------------------------------------------

    async def lease_job(self, worker: str, kinds: Sequence[str], fence: Fence, lease_ms: int) -> Lease | None:
        taken = await self._rows(queries.TAKE_JOB, self._given_ms(), worker, kinds, fence, lease_ms)
        id, now_ms = taken[0]
        if id is None:
            return None
        found = await self._rows(f"{queries.JOB} where job.id = $2", now_ms, id)
        return Lease(job=rows.job(found[0], now_ms), fence=fence, until_ms=now_ms + lease_ms)

    async def renew_lease(self, job: JobId, fence: Fence, lease_ms: int, progress: dict[str, Any] | None) -> int | None:
        noted = None if progress is None else rows.encode(progress)
        given = (self._given_ms(), job, fence, lease_ms, noted, recent_lease_ms(lease_ms))
        end: int | None = await self._value(queries.RENEW_LEASE, *given)
        return end

    async def requeue_job(
        self, job: JobId, fence: Fence, delay_ms: int, error: str, *, is_failure: bool = True
    ) -> bool:
        uncounted = 0 if is_failure else 1
        return bool(await self._value(queries.REQUEUE_JOB, self._given_ms(), job, fence, delay_ms, error, uncounted))

    async def staged(
        self, *, older_than_ms: int = 0, after: tuple[str, str, int] = ("", "", -1), limit: int = 100
    ) -> tuple[Staged, ...]:
        found = await self._rows(queries.STAGED, self._given_ms(), older_than_ms, limit, *after)
        return tuple(map(rows.staged, found))

    async def record_published(self, table: SecurableId, ref: str, version: int, *, by_client: bool = False) -> None:
        await self._rows(queries.PUBLISHED, table, ref, version, by_client)
        if ref == MAIN:
            self._cache.publish(table, version, by_client=by_client)

    async def record_durable(self, versions: Mapping[tuple[SecurableId, str], int]) -> None:
        tables, refs = [table for table, _ in versions], [ref for _, ref in versions]
        await self._rows(queries.DURABLE, tables, refs, list(versions.values()))

    async def store_report(
        self, table: SecurableId, version: int, body: bytes, *, kind: ReportKind = ReportKind.COMMIT
    ) -> None:
        await self._rows(queries.STORE_REPORT, table, version, body, self._given_ms(), kind)

    async def reports(
        self, table: SecurableId, *, kind: ReportKind = ReportKind.COMMIT, after: int = -1, limit: int = 100
    ) -> tuple[Report, ...]:
        return tuple(map(rows.report, await self._rows(queries.REPORTS, table, kind, after, limit)))

    async def delete_reports(self, table: SecurableId, *, kind: ReportKind, below: int, limit: int = 1000) -> int:
        return len(await self._rows(queries.DELETE_REPORTS, table, kind, below, limit))

    async def due_for_purge(self, *, after: tuple[int, str] = (-1, ""), limit: int = 100) -> tuple[Securable, ...]:
        found = await self._rows(queries.DUE_FOR_PURGE, self._given_ms(), *after, limit)
        return tuple(map(rows.securable, found))

    async def location_holder(self, path: str) -> SecurableId | None:
        found = await self._rows(queries.LOCATION_HOLDER, enclosing_locations(path), *range_inside(path))
        return SecurableId(found[0][0]) if found[0][0] else None

    async def all_children(self, parent: SecurableId, limit: int = 500) -> tuple[Below, ...]:
        found = await self._rows(queries.ALL_CHILDREN, parent, limit)
        return tuple(Below(rows.securable(row), row[_WIDTH]) for row in found)

    async def delete_expired_receipts(self, limit: int = 1000) -> int:
        return len(await self._rows(queries.DELETE_EXPIRED_RECEIPTS, self._given_ms(), limit))

    async def page_secret(self) -> bytes:
        return self._secret

    # --- internals -----------------------------------------------------------------------------

    async def _rows(self, sql: str, *args: Any) -> list[Any]:
        """Run one statement on a reading connection. Retry it if the database or the connection is lost."""
        for tries in count():
            try:
                found = await self._readers.fetch(sql, *args)
            except asyncpg.DataError as error:
                raise InvalidInput("a text or number in this request is not valid for a lookup") from error
            except (*connections.LOST, asyncpg.PostgresError) as error:
                if not connections.is_lost(error, None):
                    log.exception("the database rejected a statement")
                    raise Unavailable("the database rejected the read; nothing was done: see the log") from error
                await self._back_off(error, tries)
            else:
                self._unreachable_since = None
                return found
        raise AssertionError("count() never ends")

    async def _back_off(self, error: Exception, tries: int) -> None:
        """Back off briefly: a restarting database is available soon. After `patience_s`, callers fail immediately."""
        now = asyncio.get_running_loop().time()
        if self._unreachable_since is None:
            self._unreachable_since = now
        if tries and now - self._unreachable_since >= self._patience_s:
            raise Unavailable("the database is unreachable; nothing was done: retry later") from error
        await asyncio.sleep(_RETRY_DELAY_S * tries)

    async def _value(self, sql: str, *args: Any) -> Any:
        found = await self._rows(sql, *args)
        return found[0][0] if found else None

    def _given_ms(self) -> int | None:
        return None if self._clock_ms is None else self._clock_ms()

    def _on_append(self, drafts: Sequence[Draft], seqs: Sequence[int], at_ms: int) -> None:
        self._cache.follow(drafts, seqs, at_ms)
        self._announce(max(seqs))

    def _announce(self, seq: int) -> None:
        if seq > self._newest:
            self._newest = seq
            for news in self._news:
                if not news.done():
                    news.set_result(None)
