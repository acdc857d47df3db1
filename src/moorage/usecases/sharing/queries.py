"""Reads the files of a shared table at one version."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import msgspec

from moorage.core.errors import InvalidInput
from moorage.formats.sharing.capabilities import Capabilities, ResponseFormat
from moorage.formats.sharing.file_ids import IdScheme
from moorage.formats.sharing.lines import EndStreamAction, end_stream_line
from moorage.snapshots.predicates import columns_in
from moorage.usecases.local_state import CacheKind, QueueKey
from moorage.usecases.ports import Ports
from moorage.usecases.sharing.file_urls import FileUrls, open_urls
from moorage.usecases.sharing.hints import Hints, read_hints
from moorage.usecases.sharing.reading import Reading, neutral_errors, parse_timestamp
from moorage.usecases.sharing.shared_tables import SharedTable
from moorage.usecases.sharing.table_heads import TableHead, table_head
from moorage.usecases.sharing.tokens import (
    LIFETIME_MS,
    PageToken,
    RefreshToken,
    fingerprint,
    scope_of,
    seal_token,
    unseal_token,
)

if TYPE_CHECKING:
    from moorage.formats.delta.replay import Part
    from moorage.formats.sharing.file_lines import FileTable, LineParts
    from moorage.snapshots.snapshot import Snapshot

SLICE: Final = 1024
"""The lines of this many files are made at a time, on a thread."""
_SENT_BYTES: Final = 128 * 1024
"""Other requests are served after so many bytes."""
BLOCK: Final = 4096
"""The tails of this many files are encoded and cached together."""

_TailsKey: TypeAlias = tuple[int, int, ResponseFormat, IdScheme]
"""Slab, block, format and id scheme."""
_TAILS: Final = CacheKind[_TailsKey, Any](
    "lines of shared files", limit=192 * 1024 * 1024, weigh=lambda tails: int(tails.nbytes)
)
"""As Arrow tables."""


class SliceQueue(QueueKey, frozen=True):
    """Responses take turns to encode files and to make lines: at most one thread takes CPU time from other requests."""


class QueryRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a client asks for. At most one of version, timestamp and starting_version is set."""

    predicate_hints: tuple[str, ...] = ()
    json_predicate_hints: str | None = None
    limit_hint: int | None = None
    version: int | None = None
    timestamp: str | None = None
    starting_version: int | None = None
    ending_version: int | None = None
    max_files: int | None = None
    page_token: str | None = None
    include_refresh_token: bool = False
    refresh_token: str | None = None
    include_historical_protocol: bool = False

    def fingerprint(self) -> str:
        """Equal for all pages of one query."""
        return fingerprint(
            self.predicate_hints,
            self.json_predicate_hints,
            self.limit_hint,
            self.version,
            self.timestamp,
            self.starting_version,
            self.ending_version,
        )


class ReadCount(msgspec.Struct):
    """The files that a response has named so far, and their size in bytes."""

    files: int = 0
    bytes: int = 0

    def add(self, files: int, size: int) -> None:
        self.files += files
        self.bytes += size


class Lines(msgspec.Struct, frozen=True, kw_only=True):
    """A response of lines: what its headers state, and the lines in chunks."""

    version: int
    chosen: ResponseFormat
    ends_stream: bool
    """Whether the last line is an endStreamAction."""
    chunks: AsyncIterator[bytes]
    count: ReadCount


class Reader(NamedTuple):
    """Who reads, and in which form."""

    recipient: str
    capabilities: Capabilities
    scheme: IdScheme | None = None

    def scheme_for(self, chosen: ResponseFormat) -> IdScheme:
        return self.scheme or chosen


def require_consistent(request: QueryRequest) -> None:
    """Raise InvalidInput for parameters that exclude each other or have impossible values."""
    times = {"version": request.version, "timestamp": request.timestamp, "startingVersion": request.starting_version}
    given = [name for name, value in times.items() if value is not None]
    if len(given) > 1:
        raise InvalidInput(f"only one of {' and '.join(given)} can be set", field=given[0])
    if request.max_files is not None and request.max_files <= 0:
        raise InvalidInput(f"maxFiles is {request.max_files}; it must be positive", field="maxFiles")
    if request.limit_hint is not None and request.limit_hint < 0:
        raise InvalidInput(f"limitHint is {request.limit_hint}; it must not be negative", field="limitHint")
    if request.refresh_token is not None or request.include_refresh_token:
        name = "includeRefreshToken" if request.refresh_token is None else "refreshToken"
        if given or request.page_token is not None:
            other = given[0] if given else "pageToken"
            raise InvalidInput(
                f"{name} cannot be combined with {other}; URLs of the newest version can be refreshed", field=name
            )


async def query_snapshot(ports: Ports, shared: SharedTable, request: QueryRequest, reader: Reader) -> Lines:
    """The files of one version: the newest, or the one that the request names."""
    reading = await Reading.open(ports, shared)
    page = _page_of(ports, shared, request, reader)
    snapshot = await _snapshot(reading, request, reader, page)
    is_pinned = request.version is not None or request.timestamp is not None
    head = await table_head(reading, snapshot, reader.capabilities, states_version=is_pinned)
    hints = read_hints(request.json_predicate_hints, request.predicate_hints, lambda path: _kind(snapshot, path))
    with neutral_errors(shared):
        parts = await ports.snapshots.selections(snapshot, hints.predicate, reading.partition_filter(snapshot))
    limit = request.limit_hint if _may_limit(snapshot, hints) else None
    urls = await open_urls(ports, reader.recipient, reading.shared)
    response = _Response(reading, snapshot, head, request, reader, urls, is_pinned=is_pinned)
    ends_stream = (
        reader.capabilities.end_stream
        or request.max_files is not None
        or request.page_token is not None
        or request.include_refresh_token
    )
    chunks = response.chunks(parts, limit, page, ends_stream=ends_stream)
    return Lines(
        version=snapshot.version, chosen=head.chosen, ends_stream=ends_stream, chunks=chunks, count=response.count
    )


def _page_of(ports: Ports, shared: SharedTable, request: QueryRequest, reader: Reader) -> PageToken | None:
    if request.page_token is None:
        return None
    return unseal_token(
        ports,
        PageToken,
        request.page_token,
        field="pageToken",
        shared=shared,
        recipient=reader.recipient,
        request=request.fingerprint(),
    )


async def _snapshot(reading: Reading, request: QueryRequest, reader: Reader, page: PageToken | None) -> Snapshot:
    if request.version is not None:
        reading.require_history("version")
    if request.timestamp is not None:
        reading.require_history("timestamp")
    if page is not None:
        return await reading.at(page.version)
    if request.refresh_token is not None:
        token = unseal_token(
            reading.ports,
            RefreshToken,
            request.refresh_token,
            field="refreshToken",
            shared=reading.shared,
            recipient=reader.recipient,
        )
        return await reading.at(token.version)
    if request.version is not None:
        return await reading.at(request.version)
    if request.timestamp is not None:
        return await reading.at_time(parse_timestamp(request.timestamp, "timestamp"))
    return await reading.latest()


def _kind(snapshot: Snapshot, path: tuple[str, ...]) -> str | None:
    from moorage.snapshots.bounds import find_column

    column = find_column(path, snapshot.schema, snapshot.metadata)
    return None if column is None or column.is_collated else column.type.name


def _may_limit(snapshot: Snapshot, hints: Hints) -> bool:
    """Whether every row of the selected files matches the hints. Else the rows that match may be in later files."""
    if not hints.is_complete:
        return False
    if hints.predicate is None:
        return True
    partitions = {name.lower() for name in snapshot.metadata.partition_columns}
    exact = {"string", "integer", "date", "boolean"}
    return all(
        len(path) == 1 and path[0].lower() in partitions and _kind(snapshot, path) in exact
        for path in columns_in(hints.predicate)
    )


async def _in_slices(tables: AsyncIterator[FileTable]) -> AsyncIterator[FileTable]:
    """The same tails in slices. A hint may select a few files of each block, and a slice has those of many blocks."""
    from moorage.formats.sharing.file_lines import concat

    waiting: list[FileTable] = []
    async for table in tables:
        if table.num_rows:
            waiting.append(table)
        if sum(each.num_rows for each in waiting) >= SLICE:
            joined = concat(waiting)
            for start in range(0, joined.num_rows, SLICE):
                yield joined.slice(start, SLICE)
            waiting = []
    if waiting:
        yield concat(waiting)


class _Response:
    """Makes the lines of one response."""

    def __init__(
        self,
        reading: Reading,
        snapshot: Snapshot,
        head: TableHead,
        request: QueryRequest,
        reader: Reader,
        urls: FileUrls,
        *,
        is_pinned: bool,
    ) -> None:
        from moorage.formats.sharing.file_lines import Stated, line_parts

        self._ports = reading.ports
        self._shared = reading.shared
        self._snapshot = snapshot
        self._head = head
        self._request = request
        self._reader = reader
        self._scheme = reader.scheme_for(head.chosen)
        self._urls = urls
        stated = Stated(
            expires_at_ms=self._urls.expires_at_ms,
            version=snapshot.version if is_pinned else None,
            timestamp_ms=snapshot.timestamp_ms if is_pinned else None,
        )
        self._parts: LineParts = line_parts(head.chosen, stated)
        self.count = ReadCount()

    async def chunks(
        self, parts: list[Part], limit: int | None, page: PageToken | None, *, ends_stream: bool
    ) -> AsyncIterator[bytes]:
        yield self._head.lines
        next_token = None
        if self._request.max_files is None and page is None:
            tables = self._tails_in_blocks(parts) if limit is None else self._limited_tails(parts, limit)
        else:
            files, next_token = await asyncio.to_thread(self._page, parts, limit, page)
            tables = self._tails_of(files)
        async for tails in _in_slices(tables):
            lines = await self._lines(tails)
            for at in range(0, len(lines), _SENT_BYTES):
                yield lines[at : at + _SENT_BYTES]
                await asyncio.sleep(0)
        if ends_stream:
            yield end_stream_line(self._end(next_token))

    async def _lines(self, tails: FileTable) -> bytes:
        async with self._ports.local.queue(SliceQueue()):
            self.count.add(tails.num_rows, sum(tails["size"].to_pylist()))
            if self._urls.is_local:
                return await asyncio.to_thread(self._local_lines, tails)
            urls = await self._urls.sign(tails["path"].to_pylist())
            vector_urls = await self._urls.sign(tails["vector_path"].drop_null().to_pylist())
            return await asyncio.to_thread(self._presigned_lines, tails, urls, vector_urls)

    def _local_lines(self, tails: FileTable) -> bytes:
        from moorage.formats.sharing.file_lines import join_lines

        urls = self._urls.join(tails["name"], tails["digest"])
        if "vector_name" not in tails.column_names:
            return join_lines(self._parts, urls, tails)
        return join_lines(self._parts, urls, tails, self._urls.join(tails["vector_name"], tails["vector_digest"]))

    def _presigned_lines(self, tails: FileTable, urls: list[bytes], vector_urls: list[bytes]) -> bytes:
        from moorage.formats.sharing.file_lines import beside_vectors, join_lines, to_urls

        return join_lines(self._parts, to_urls(urls), tails, beside_vectors(tails, vector_urls))

    def _to_tails(self, files: FileTable) -> FileTable:
        """What the lines of these files have in common in every response."""
        from moorage.formats.sharing.file_lines import to_tails

        tails = to_tails(files, self._head.chosen, self._scheme)
        return self._urls.with_names(tails) if self._urls.is_local else tails

    async def _tails_in_blocks(self, parts: list[Part]) -> AsyncIterator[FileTable]:
        """The tails of all files, encoded and cached block by block."""
        from moorage.formats.sharing.file_lines import blocks_of

        for part in parts:
            for block in blocks_of(part, BLOCK):
                key = (part.slab.number, block.start, self._head.chosen, self._scheme)
                tails = self._ports.local.cache(_TAILS).get(key)
                if tails is None and block.selected * 8 < block.files.num_rows:  # most of the block is not needed
                    yield await self._encode(block.files.filter(block.rows))
                    continue
                if tails is None:
                    tails = await self._encode(block.files, key)
                yield tails if block.rows is None else tails.filter(block.rows)

    async def _encode(self, files: FileTable, key: _TailsKey | None = None) -> FileTable:
        """The tails of files. Responses that need the same block at the same time encode it once."""
        cache = self._ports.local.cache(_TAILS)
        async with self._ports.local.queue(SliceQueue()):
            tails: Any = None if key is None else cache.get(key)
            if tails is None:
                tails = await asyncio.to_thread(self._to_tails, files)
                if key is not None:
                    cache.put(key, tails)
            return tails

    async def _limited_tails(self, parts: list[Part], rows: int) -> AsyncIterator[FileTable]:
        """The tails of as many files as contain so many rows."""
        from moorage.formats.sharing.file_lines import blocks_of
        from moorage.formats.sharing.pages import files_for_rows, rows_in

        for part in parts:
            for block in blocks_of(part, SLICE):
                if rows <= 0:
                    return
                files = block.files if block.rows is None else block.files.filter(block.rows)
                files = files.slice(0, files_for_rows(files, rows))
                rows -= rows_in(files)
                yield await self._encode(files)

    def _page(self, parts: list[Part], limit: int | None, page: PageToken | None) -> tuple[FileTable, str | None]:
        """The files of a page in the order of their keys, and the token of the next page."""
        from moorage.formats.sharing.pages import page_of

        size = self._request.max_files
        found = page_of(parts, after=None if page is None else page.after, size=size, rows=limit)
        if found.last is None:
            return found.files, None
        token = PageToken(**self._bound(self._request.fingerprint()), version=self._head.version, after=found.last)
        return found.files, seal_token(self._ports, token)

    async def _tails_of(self, files: FileTable) -> AsyncIterator[FileTable]:
        for start in range(0, files.num_rows, BLOCK):
            yield await self._encode(files.slice(start, BLOCK))

    def _end(self, next_token: str | None) -> EndStreamAction:
        refresh = None
        if self._request.include_refresh_token:
            refresh = seal_token(self._ports, RefreshToken(**self._bound(""), version=self._head.version))
        return EndStreamAction(
            refresh_token=refresh,
            next_page_token=next_token,
            min_url_expiration_timestamp=self._urls.expires_at_ms,
        )

    def _bound(self, request: str) -> dict[str, Any]:
        return {
            "table": scope_of(self._shared),
            "recipient": self._reader.recipient,
            "request": request,
            "expires_at_ms": self._ports.now_ms() + LIFETIME_MS,
        }
