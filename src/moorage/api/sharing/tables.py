"""Versions, metadata, files and changes of shared tables."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from moorage.api.sharing.api import CODE, MALFORMED, NDJSON, sharing
from moorage.api.sharing.streams import lines_answer, table_headers
from moorage.core.errors import (
    Damaged,
    InvalidInput,
    SecurableNotFound,
    TableNotFound,
    Unsupported,
    VersionNotFound,
)
from moorage.formats.sharing import capabilities as header
from moorage.formats.sharing import file_ids
from moorage.formats.sharing.capabilities import parse_capabilities, response_capabilities
from moorage.formats.sharing.file_ids import ID_SCHEMES, IdScheme
from moorage.http import Answer, Call, Example, NoBody, NoQuery
from moorage.http.answers import Header
from moorage.http.inputs import Int64
from moorage.usecases.ports import Ports
from moorage.usecases.sharing import versions
from moorage.usecases.sharing.accesses import record_access
from moorage.usecases.sharing.changes import ChangesRequest, query_changes, read_change_feed
from moorage.usecases.sharing.granted import find_table
from moorage.usecases.sharing.queries import (
    Lines,
    QueryRequest,
    ReadCount,
    Reader,
    query_snapshot,
    require_consistent,
)
from moorage.usecases.sharing.recipients import as_recipient
from moorage.usecases.sharing.shared_tables import SharedTable

routes = sharing.section(tags=("shared tables",))

TABLE = "/shares/{share}/schemas/{schema}/tables/{table}"
EXAMPLE_TABLE = {"share": "vaccine_share", "schema": "acme", "table": "patients"}
ERRORS = (InvalidInput, VersionNotFound, Unsupported, SecurableNotFound, TableNotFound, Damaged)
_MAX_INT32 = 2**31 - 1
_FIRST_MOMENT = "A moment, which selects the first version from then on, for example 2022-01-01T00:00:00Z."

EXAMPLE_LINES = (
    '{"protocol":{"minReaderVersion":1}}\n'
    '{"metaData":{"id":"f8d5c169-3d01-4ca3-ad9e-7dc3355aedb2","format":{"provider":"parquet"},'
    '"schemaString":"…","partitionColumns":[]}}\n'
)


async def table_of(call: Call[Any, Any], ports: Ports) -> SharedTable:
    names = call.params
    return await find_table(ports, as_recipient(call.caller), names["share"], names["schema"], names["table"])


def record(
    call: Call[Any, Any], ports: Ports, shared: SharedTable, version: int | None = None, count: ReadCount | None = None
) -> None:
    """Record in the audit what the recipient read."""
    read = count or ReadCount()
    by = as_recipient(call.caller)
    record_access(ports, by, call.route.operation, shared, version=version, files=read.files, size=read.bytes)


async def _lines_answer(
    call: Call[Any, Any], ports: Ports, shared: SharedTable, lines: Lines, reader: Reader
) -> Answer:
    return await lines_answer(
        lines,
        partial(record, call, ports, shared, lines.version),
        announces_end=reader.capabilities.end_stream,
        more=_scheme_header(reader),
    )


def reader_of(call: Call[Any, Any]) -> Reader:
    return Reader(call.caller.id, parse_capabilities(call.header(header.HEADER)), _id_scheme(call))


def _id_scheme(call: Call[Any, Any]) -> IdScheme | None:
    """How the client wants file ids to be made, if it says so."""
    stated = call.header(file_ids.HEADER)
    if stated is None:
        return None
    found = next((scheme for scheme in ID_SCHEMES if scheme == stated.strip().lower()), None)
    if found is None:
        raise InvalidInput(f"{file_ids.HEADER} must be parquet or delta, not {stated!r}", field=file_ids.HEADER)
    return found


def _scheme_header(reader: Reader) -> tuple[Header, ...]:
    return () if reader.scheme is None else ((file_ids.HEADER.encode(), reader.scheme.encode()),)


# --- version and metadata --------------------------------------------------------------------------


class VersionQuery(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Asks for the first version at or after a moment, instead of the newest."""

    starting_timestamp: Annotated[str | None, Meta(description=_FIRST_MOMENT)] = None


class MetadataQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Asks for the metadata of an older version."""

    version: Annotated[Int64 | None, Meta(description="A version of the table.")] = None
    timestamp: Annotated[str | None, Meta(description="A moment, which selects the last version until then.")] = None


@routes.get(
    f"{TABLE}/version",
    operation="getSharedTableVersion",
    summary="Get the version of a table.",
    query=VersionQuery,
    errors=ERRORS,
    example=Example(path=EXAMPLE_TABLE),
)
async def get_version(call: Call[NoBody, VersionQuery], ports: Ports) -> Answer:
    """Get the newest version of a table, or the first one at or after a moment, in the header Delta-Table-Version."""
    shared = await table_of(call, ports)
    version = await versions.find_version(ports, shared, call.query.starting_timestamp)
    record(call, ports, shared, version)
    return Answer.empty(200, table_headers(version))


@routes.head(
    TABLE,
    operation="headSharedTable",
    summary="Get the version of a table, for older clients.",
    query=VersionQuery,
    errors=ERRORS,
    example=Example(path=EXAMPLE_TABLE),
)
async def head_table(call: Call[NoBody, VersionQuery], ports: Ports) -> Answer:
    """Get the version of a table as older clients do."""
    return await get_version(call, ports)


@routes.get(
    f"{TABLE}/metadata",
    operation="getSharedTableMetadata",
    summary="Get the metadata of a table.",
    query=MetadataQuery,
    content_types=("application/x-ndjson",),
    errors=ERRORS,
    example=Example(path=EXAMPLE_TABLE, answer=EXAMPLE_LINES),
)
async def get_metadata(call: Call[NoBody, MetadataQuery], ports: Ports) -> Answer:
    """Get the protocol and the metadata of a table, one line each, in the format that the client understands."""
    shared = await table_of(call, ports)
    capabilities = parse_capabilities(call.header(header.HEADER))
    query = call.query
    head = await versions.read_metadata(ports, shared, capabilities, version=query.version, timestamp=query.timestamp)
    record(call, ports, shared, head.version)
    headers = (
        (b"content-type", NDJSON.encode()),
        (header.HEADER.encode(), response_capabilities(head.chosen, end_stream=False).encode()),
        *table_headers(head.version),
    )
    return Answer(200, head.lines, headers)


# --- files -----------------------------------------------------------------------------------------


class QueryTableRequest(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Which files of a table the client wants. Hints let the server leave out files; all fields are optional."""

    predicate_hints: tuple[str, ...] | None = None
    json_predicate_hints: str | None = None
    limit_hint: Int64 | None = None
    version: Int64 | None = None
    timestamp: str | None = None
    starting_version: Int64 | None = None
    ending_version: Int64 | None = None
    max_files: Int64 | None = None
    page_token: str | None = None
    include_refresh_token: bool | None = None
    refresh_token: str | None = None
    include_historical_protocol: bool | None = None


_decoder = msgspec.json.Decoder(QueryTableRequest, strict=False)


def malformed(problem: str) -> InvalidInput:
    return InvalidInput(f"the request body is not valid: {problem}", field="body", **{CODE: MALFORMED})


def decode_query(raw: bytes) -> QueryTableRequest:
    """Decode a query. Clients send some numbers as text."""
    try:
        return _decoder.decode(raw)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise malformed("it is empty; send {} to read all files" if not raw.strip() else str(error)) from None


def _require_int32(value: int | None, field: str) -> int | None:
    if value is not None and not 0 < value <= _MAX_INT32:
        raise InvalidInput(f"{field} is {value}; it must be between 1 and {_MAX_INT32}", field=field)
    return value


@routes.post(
    f"{TABLE}/query",
    operation="querySharedTable",
    summary="Get the files of a table.",
    body=QueryTableRequest,
    decode=decode_query,
    content_types=("application/x-ndjson",),
    errors=ERRORS,
    mutation=False,
    example=Example(path=EXAMPLE_TABLE, body={"limitHint": 1000}, answer=EXAMPLE_LINES),
)
async def query_table(call: Call[QueryTableRequest, NoQuery], ports: Ports) -> Answer:
    """Get the files of a table: of its newest version, of another one, or the changes since a starting version.

    The response has one line per file, with a URL that is valid for a while. It is sent while it is made. A request
    for an asynchronous query is answered immediately, too.
    """
    body = call.body
    request = QueryRequest(
        predicate_hints=body.predicate_hints or (),
        json_predicate_hints=body.json_predicate_hints,
        limit_hint=body.limit_hint,
        version=body.version,
        timestamp=body.timestamp,
        starting_version=body.starting_version,
        ending_version=body.ending_version,
        max_files=_require_int32(body.max_files, "maxFiles"),
        page_token=body.page_token or None,
        include_refresh_token=bool(body.include_refresh_token),
        refresh_token=body.refresh_token or None,
        include_historical_protocol=bool(body.include_historical_protocol),
    )
    reader = reader_of(call)
    shared = await table_of(call, ports)
    require_consistent(request)
    query = query_snapshot if request.starting_version is None else query_changes
    return await _lines_answer(call, ports, shared, await query(ports, shared, request, reader), reader)


@routes.post(
    f"{TABLE}/queries/{{query_id}}",
    operation="getSharedTableQuery",
    summary="Get the result of an asynchronous query.",
    content_types=("application/x-ndjson",),
    errors=ERRORS,
    mutation=False,
    example=Example(path={**EXAMPLE_TABLE, "query_id": "q-1"}, answer=EXAMPLE_LINES),
)
async def get_query(call: Call[NoBody, NoQuery], ports: Ports) -> Answer:
    """This server answers every query immediately, so it has no queries that can be asked for later."""
    await table_of(call, ports)
    raise SecurableNotFound(
        f"query '{call.params['query_id']}' does not exist; this server answers queries immediately",
        name=call.params["query_id"],
    )


# --- changes ---------------------------------------------------------------------------------------


class ChangesQuery(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A range of versions, by number or by time. Both ends are inclusive."""

    starting_version: Annotated[Int64 | None, Meta(description="The first version.")] = None
    starting_timestamp: Annotated[str | None, Meta(description=_FIRST_MOMENT)] = None
    ending_version: Annotated[Int64 | None, Meta(description="The last version; by default the newest.")] = None
    ending_timestamp: Annotated[
        str | None, Meta(description="A moment, which selects the last version until then.")
    ] = None
    include_historical_metadata: Annotated[
        bool, Meta(description="Whether to tell the metadata of the first version and each change of it.")
    ] = False
    include_historical_protocol: Annotated[
        bool,
        Meta(description="Whether to tell the protocol of the first version and each change of it, in delta format."),
    ] = False
    max_files: Annotated[Int64 | None, Meta(description="The largest number of files on a page.")] = None
    page_token: Annotated[str | None, Meta(description="The nextPageToken of the page before.")] = None


@routes.get(
    f"{TABLE}/changes",
    operation="readSharedTableChanges",
    summary="Get the change data feed of a table.",
    query=ChangesQuery,
    content_types=("application/x-ndjson",),
    errors=ERRORS,
    example=Example(path=EXAMPLE_TABLE, query={"startingVersion": 0}, answer=EXAMPLE_LINES),
)
async def read_changes(call: Call[NoBody, ChangesQuery], ports: Ports) -> Answer:
    """Get the files with the changed rows of a range of versions. The table must record its change data feed."""
    query = call.query
    request = ChangesRequest(
        starting_version=query.starting_version,
        starting_timestamp=query.starting_timestamp,
        ending_version=query.ending_version,
        ending_timestamp=query.ending_timestamp,
        include_historical_metadata=query.include_historical_metadata,
        include_historical_protocol=query.include_historical_protocol,
        max_files=_require_int32(query.max_files, "maxFiles"),
        page_token=query.page_token or None,
    )
    reader = reader_of(call)
    shared = await table_of(call, ports)
    lines = await read_change_feed(ports, shared, request, reader)
    return await _lines_answer(call, ports, shared, lines, reader)
