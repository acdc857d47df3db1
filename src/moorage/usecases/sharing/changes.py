"""Reads the changes of a shared table: file actions for streams, and the change data feed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Final

import msgspec

from moorage.core.errors import InvalidInput
from moorage.formats.delta.actions import Metadata, Protocol
from moorage.formats.delta.schema import parse_schema
from moorage.formats.sharing.capabilities import ResponseFormat, choose_format
from moorage.formats.sharing.lines import EndStreamAction, end_stream_line
from moorage.formats.sharing.protocols import (
    COLUMN_MAPPING,
    merged_protocol,
    needed_features,
    shared_metadata,
    shared_protocol,
)
from moorage.formats.sharing.table_lines import TableFacts, has_change_feed, metadata_line, protocol_line
from moorage.usecases.ports import Ports
from moorage.usecases.sharing.file_urls import FileUrls, open_urls
from moorage.usecases.sharing.queries import Lines, QueryRequest, ReadCount, Reader
from moorage.usecases.sharing.reading import Reading, neutral_errors, parse_timestamp
from moorage.usecases.sharing.shared_tables import SharedTable
from moorage.usecases.sharing.tokens import (
    LIFETIME_MS,
    ChangesPageToken,
    fingerprint,
    scope_of,
    seal_token,
    unseal_token,
)

if TYPE_CHECKING:
    from moorage.formats.sharing.change_lines import FileAction
    from moorage.snapshots.partition_filter import PartitionFilter
    from moorage.snapshots.snapshot import Snapshot
    from moorage.snapshots.snapshots import Changes

_MOST_KEPT: Final = 100_000
"""Versions with up to this many file actions together are kept while a response is made. More are read twice."""
_CHUNK: Final = 64


class ChangesRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a client asks for: a range of versions, by number or by time, both ends inclusive."""

    starting_version: int | None = None
    starting_timestamp: str | None = None
    ending_version: int | None = None
    ending_timestamp: str | None = None
    include_historical_metadata: bool = False
    include_historical_protocol: bool = False
    max_files: int | None = None
    page_token: str | None = None

    def fingerprint(self) -> str:
        return fingerprint(
            self.starting_version,
            self.starting_timestamp,
            self.ending_version,
            self.ending_timestamp,
            self.include_historical_metadata,
        )


class _Range(msgspec.Struct, frozen=True, kw_only=True):
    """The versions of a response, and where it begins within them."""

    first: int
    last: int
    version: int
    skip: int = 0
    """How many actions of `version` were on earlier pages."""


class _Plan(msgspec.Struct, frozen=True, kw_only=True):
    """How the changes of a range are told."""

    is_feed: bool
    """Whether this is the change data feed. Else it is a stream of files."""
    historical_metadata: bool
    historical_protocol: bool
    fingerprint: str
    max_files: int | None
    page_token: str | None


async def query_changes(ports: Ports, shared: SharedTable, request: QueryRequest, reader: Reader) -> Lines:
    """The file actions of all versions from a starting version on, for streams."""
    reading = await Reading.open(ports, shared)
    reading.require_history("startingVersion")
    latest = await reading.latest()
    first = request.starting_version or 0
    last = latest.version if request.ending_version is None else min(request.ending_version, latest.version)
    plan = _Plan(
        is_feed=False,
        historical_metadata=True,
        historical_protocol=request.include_historical_protocol,
        fingerprint=request.fingerprint(),
        max_files=request.max_files,
        page_token=request.page_token,
    )
    if request.page_token is None:
        _require_range(reading, first, request.ending_version, latest.version)
    return await _lines(reading, reader, plan, _Range(first=first, last=last, version=first))


async def read_change_feed(ports: Ports, shared: SharedTable, request: ChangesRequest, reader: Reader) -> Lines:
    """The change data feed of a range of versions."""
    if request.max_files is not None and request.max_files <= 0:
        raise InvalidInput(f"maxFiles is {request.max_files}; it must be positive", field="maxFiles")
    reading = await Reading.open(ports, shared)
    reading.require_history("the change data feed")
    reading.require_feed()
    latest = await reading.latest()
    first = await _first_version(reading, request, latest)
    last = await _last_version(reading, request, latest)
    plan = _Plan(
        is_feed=True,
        historical_metadata=request.include_historical_metadata,
        historical_protocol=request.include_historical_protocol,
        fingerprint=request.fingerprint(),
        max_files=request.max_files,
        page_token=request.page_token,
    )
    if request.page_token is None:
        _require_range(reading, first, last, latest.version)
    last = latest.version if last is None else min(last, latest.version)
    return await _lines(reading, reader, plan, _Range(first=first, last=last, version=first))


async def _first_version(reading: Reading, request: ChangesRequest, latest: Snapshot) -> int:
    if (request.starting_version is None) == (request.starting_timestamp is None):
        raise InvalidInput(
            "give either startingVersion or startingTimestamp, and not both of them", field="startingVersion"
        )
    if request.starting_version is not None:
        return request.starting_version
    moment = parse_timestamp(request.starting_timestamp or "", "startingTimestamp")
    found = await reading.version_from(moment)
    await reading.version_at(moment)  # refused before the oldest version, because the log may lack changes since then
    return found


async def _last_version(reading: Reading, request: ChangesRequest, latest: Snapshot) -> int | None:
    if request.ending_version is not None and request.ending_timestamp is not None:
        raise InvalidInput("give either endingVersion or endingTimestamp, and not both of them", field="endingVersion")
    if request.ending_timestamp is None:
        return request.ending_version
    moment = parse_timestamp(request.ending_timestamp, "endingTimestamp")
    return (await reading.at_time(moment)).version


def _require_range(reading: Reading, first: int, last: int | None, latest: int) -> None:
    reading.require_shared(first)
    if first > latest:
        raise InvalidInput(f"startingVersion {first} is after the newest version {latest}", field="startingVersion")
    if last is not None and last < first:
        raise InvalidInput(f"the end {last} is before the start {first} of the range", field="endingVersion")


class _History:
    """The versions of a range, with the protocol and the metadata at its start."""

    def __init__(self, reading: Reading, span: _Range, start: Snapshot, kept: list[Changes] | None) -> None:
        self._reading = reading
        self._span = span
        self._kept = kept
        self.start = start

    async def versions(self) -> AsyncIterator[Changes]:
        if self._kept is not None:
            for changes in self._kept:
                yield changes
            return
        async for changes in self._reading.changes(self._span.first, self._span.last):
            yield changes


class _Survey(msgspec.Struct, kw_only=True):
    """What is known about a range after one pass over it."""

    protocol: Protocol
    """What any version of the range requires of its readers."""
    metadata: Metadata
    """The metadata at the end of the range."""
    has_vectors: bool = False
    mapped_until: int | None = None
    """The last version with column mapping."""
    without_feed: list[int] = []

    def needed(self) -> frozenset[str]:
        """The reader features that the files of the range need."""
        features = needed_features(self.protocol, self.metadata, has_vectors=self.has_vectors)
        return features if self.mapped_until is None else features | {COLUMN_MAPPING}


async def _survey(reading: Reading, span: _Range, *, is_feed: bool) -> tuple[_History, _Survey]:
    """Read a range once: a response states in its first lines what all of it needs."""
    from moorage.formats.sharing.change_lines import has_vector

    start = await reading.at(span.first)
    survey = _Survey(protocol=start.protocol, metadata=start.metadata)
    if is_feed and not has_change_feed(start.metadata):
        survey.without_feed.append(span.first)
    kept: list[Changes] = []
    count = 0
    filter_ = reading.partition_filter(start)
    with neutral_errors(reading.shared):
        async for changes in reading.changes(span.first, span.last):
            commit = changes.commit
            if commit.protocol is not None:
                survey.protocol = merged_protocol(survey.protocol, commit.protocol)
            survey.metadata = commit.metadata or survey.metadata
            if survey.metadata.is_mapped:
                survey.mapped_until = changes.version
            survey.has_vectors = survey.has_vectors or any(has_vector(file) for file in commit.files)
            if is_feed and changes.version > span.first and not has_change_feed(survey.metadata):
                survey.without_feed.append(changes.version)
            filter_ = _filter_after(reading, changes, filter_)
            if any(file.partition_values is None for file in commit.files if file.data_change):
                filter_.admits(None)  # refused here, because the response has not begun
            count += len(commit.files) + len(commit.cdc)
            if count <= _MOST_KEPT:
                kept.append(changes)
    return _History(reading, span, start, kept if count <= _MOST_KEPT else None), survey


def _filter_after(reading: Reading, changes: Changes, before: PartitionFilter) -> PartitionFilter:
    """The filter of the share for this version: a changed schema may have other partition columns."""
    from moorage.snapshots.partition_filter import PartitionFilter

    metadata = changes.commit.metadata
    if metadata is None:
        return before
    # Parsed in any case: a damaged schema is refused before the response begins.
    return PartitionFilter(reading.shared.partitions, parse_schema(metadata.schema_string), metadata)


def _require_tellable(plan: _Plan, survey: _Survey) -> None:
    """Refuse a range that the client would read wrongly."""
    if survey.without_feed:
        numbers = ", ".join(str(version) for version in survey.without_feed[:10])
        raise InvalidInput(
            f"the change data feed is not recorded for version {numbers} of the table; choose a range in which "
            "delta.enableChangeDataFeed is true",
            field="startingVersion",
        )
    if survey.mapped_until is not None and not survey.metadata.is_mapped and not plan.historical_metadata:
        raise InvalidInput(
            f"the column mapping of the table was removed in version {survey.mapped_until + 1}; choose a range that "
            "begins there or ends before",
            field="startingVersion",
        )


async def _lines(reading: Reading, reader: Reader, plan: _Plan, span: _Range) -> Lines:
    if plan.page_token is not None:
        token = unseal_token(
            reading.ports,
            ChangesPageToken,
            plan.page_token,
            field="pageToken",
            shared=reading.shared,
            recipient=reader.recipient,
            request=plan.fingerprint,
        )
        span = _Range(first=token.first, last=token.last, version=token.version, skip=token.skip)
    history, survey = await _survey(reading, span, is_feed=plan.is_feed)
    _require_tellable(plan, survey)
    needed = survey.needed()
    chosen = choose_format(reader.capabilities, needed)
    ends_stream = reader.capabilities.end_stream or plan.max_files is not None or plan.page_token is not None
    urls = await open_urls(reading.ports, reader.recipient, reading.shared)
    response = _Response(reading, reader, plan, span, chosen, needed, urls)
    chunks = response.chunks(history, survey, ends_stream=ends_stream)
    return Lines(version=span.first, chosen=chosen, ends_stream=ends_stream, chunks=chunks, count=response.count)


class _Response:
    def __init__(
        self,
        reading: Reading,
        reader: Reader,
        plan: _Plan,
        span: _Range,
        chosen: ResponseFormat,
        needed: frozenset[str],
        urls: FileUrls,
    ) -> None:
        self._reading = reading
        self._reader = reader
        self._plan = plan
        self._span = span
        self._chosen = chosen
        self._needed = needed
        self._urls = urls
        self._left = plan.max_files
        self.count = ReadCount()

    async def chunks(self, history: _History, survey: _Survey, *, ends_stream: bool) -> AsyncIterator[bytes]:
        metadata = history.start.metadata if self._plan.historical_metadata else survey.metadata
        # A client without historical protocols applies the first one to all versions.
        protocol = history.start.protocol if self._plan.historical_protocol else survey.protocol
        yield self._protocol(protocol, self._span.first) + self._metadata(metadata, self._span.first)
        filter_ = self._reading.partition_filter(history.start)
        next_token = None
        async for changes in history.versions():
            if changes.version > self._span.first:
                if changes.version > self._span.version:
                    yield self._headings(changes)
                filter_ = _filter_after(self._reading, changes, filter_)
            if changes.version < self._span.version:
                continue
            actions = [action for action in self._actions(changes) if filter_.admits(action.partition_values)]
            first = self._span.skip if changes.version == self._span.version else 0
            last = len(actions) if self._left is None else min(len(actions), first + self._left)
            for start in range(first, last, _CHUNK):
                yield await self._lines(changes, actions[start : min(start + _CHUNK, last)])
            if self._left is not None:
                self._left -= last - first
                if last < len(actions):
                    next_token = self._token(changes.version, last)
                    break
        if ends_stream:
            end = EndStreamAction(next_page_token=next_token, min_url_expiration_timestamp=self._urls.expires_at_ms)
            yield end_stream_line(end)

    def _protocol(self, protocol: Protocol, version: int) -> bytes:
        stated = version if self._plan.historical_protocol else None
        return protocol_line(shared_protocol(protocol, self._needed), self._chosen, version=stated)

    def _metadata(self, metadata: Metadata, version: int) -> bytes:
        is_stated = self._plan.historical_metadata or self._chosen == "delta"
        facts = TableFacts(version=version if is_stated else None)
        return metadata_line(shared_metadata(metadata, self._needed), self._chosen, facts, history=True)

    def _headings(self, changes: Changes) -> bytes:
        """The lines for a changed protocol or metadata, where the client wants them."""
        commit = changes.commit
        lines = b""
        if commit.protocol is not None and self._plan.historical_protocol and self._chosen == "delta":
            lines += self._protocol(commit.protocol, changes.version)
        if commit.metadata is not None and self._plan.historical_metadata:
            lines += self._metadata(commit.metadata, changes.version)
        return lines

    def _actions(self, changes: Changes) -> list[FileAction]:
        commit = changes.commit
        if self._plan.is_feed and commit.cdc:
            return list(commit.cdc)
        return [file for file in commit.files if file.data_change]

    async def _lines(self, changes: Changes, actions: list[FileAction]) -> bytes:
        from moorage.formats.sharing.change_lines import change_line, vector_path_of
        from moorage.formats.sharing.file_lines import Stated

        stated = Stated(
            expires_at_ms=self._urls.expires_at_ms, version=changes.version, timestamp_ms=changes.timestamp_ms
        )
        urls = await self._urls.sign([action.path for action in actions])
        self.count.add(len(actions), sum(action.size or 0 for action in actions))
        vectors = [path for action in actions if (path := vector_path_of(action)) is not None]
        vector_urls = iter(await self._urls.sign(vectors))
        scheme = self._reader.scheme_for(self._chosen)
        lines = []
        for action, url in zip(actions, urls, strict=True):
            vector_url = None if vector_path_of(action) is None else next(vector_urls).decode()
            lines.append(change_line(action, self._chosen, scheme, stated, url=url.decode(), vector_url=vector_url))
        return b"".join(lines)

    def _token(self, version: int, skip: int) -> str:
        bound: dict[str, Any] = {
            "table": scope_of(self._reading.shared),
            "recipient": self._reader.recipient,
            "request": self._plan.fingerprint,
            "expires_at_ms": self._reading.ports.now_ms() + LIFETIME_MS,
        }
        token = ChangesPageToken(**bound, first=self._span.first, last=self._span.last, version=version, skip=skip)
        return seal_token(self._reading.ports, token)
