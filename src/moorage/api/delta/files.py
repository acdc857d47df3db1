"""The files of a table at a version. An extension of this server: Delta's own clients read the log instead."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from moorage.api.delta.api import delta
from moorage.api.delta.bodies import (
    EXAMPLE_COLUMNS,
    EXAMPLE_ID,
    EXAMPLE_LOCATION,
    EXAMPLE_TABLE,
    DeltaProtocol,
    Features,
    table_at,
    to_wire_location,
)
from moorage.api.delta.load import MISSING
from moorage.core.errors import InvalidInput, VersionNotFound
from moorage.http import Answer, Call, Example, Int64, NoBody
from moorage.http.answers import JSON
from moorage.usecases.delta.files import TableFiles, files_at
from moorage.usecases.ports import Ports

routes = delta.section(tags=("delta tables",))

_encode = msgspec.json.Encoder().encode
_STATED: Final = ("schemaString", "partitionColumns", "configuration")
Natural = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class FilesQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which version, and which page of its files."""

    version: Annotated[Natural | None, Meta(description="Absent: the newest version.")] = None
    timestamp_ms: Annotated[Natural | None, Meta(description="The last version at this time.")] = None
    app_id: Annotated[str | None, Meta(description="Return the last transaction of this application.")] = None
    offset: Annotated[int, Meta(ge=0, le=2**31 - 1, description="How many files to skip. Send `version` too.")] = 0
    limit: Annotated[int, Meta(ge=0, le=10_000, description="The most files to return.")] = 10_000


class DeltaFilesResponse(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """The state of the table at one version. `files` has the fields of the log's `add` actions.

    `metadata` has what the `metaData` action contains besides the schema, the partition columns and the configuration.
    """

    table_id: str
    location: str
    version: Int64
    timestamp_ms: Int64
    protocol: DeltaProtocol
    schema_string: str
    partition_columns: list[str]
    configuration: dict[str, str]
    metadata: dict[str, Any]
    domains: Features
    last_transaction: Int64 | None
    file_count: Int64
    files: list[dict[str, Any]]


def _response(found: TableFiles, app_id: str | None) -> bytes:
    protocol, metadata = found.protocol, msgspec.to_builtins(found.metadata)
    return _encode(
        DeltaFilesResponse(
            table_id=found.table_id,
            location=to_wire_location(found.location),
            version=found.version,
            timestamp_ms=found.timestamp_ms,
            protocol=DeltaProtocol(
                min_reader_version=protocol.min_reader_version,
                min_writer_version=protocol.min_writer_version,
                reader_features=list(protocol.reader_features),
                writer_features=list(protocol.writer_features),
            ),
            schema_string=found.metadata.schema_string,
            partition_columns=list(found.metadata.partition_columns),
            configuration=found.metadata.configuration,
            metadata={key: value for key, value in metadata.items() if key not in _STATED},
            domains=list(found.domains),
            last_transaction=None if app_id is None else found.transactions.get(app_id),
            file_count=found.file_count,
            files=[msgspec.to_builtins(file) for file in found.files],
        )
    )


@routes.get(
    "/catalogs/{catalog}/schemas/{schema}/tables/{table}/files",
    operation="listDeltaTableFiles",
    summary="List the files of a table at a version.",
    stage="private_preview",
    query=FilesQuery,
    answer=DeltaFilesResponse,
    errors=(InvalidInput, VersionNotFound, *MISSING),
    example=Example(
        path=EXAMPLE_TABLE,
        query={"version": 1},
        answer={
            "table-id": EXAMPLE_ID,
            "location": EXAMPLE_LOCATION,
            "version": 1,
            "timestamp-ms": 1794737732278,
            "protocol": {
                "min-reader-version": 3,
                "min-writer-version": 7,
                "reader-features": ["catalogManaged"],
                "writer-features": ["catalogManaged", "inCommitTimestamp"],
            },
            "schema-string": _encode(EXAMPLE_COLUMNS).decode(),
            "partition-columns": [],
            "configuration": {"delta.enableInCommitTimestamps": "true"},
            "metadata": {"id": "2a310e2f-44c8-4dae-8870-67cf007ebce4", "createdTime": 1794737732278},
            "domains": [],
            "last-transaction": None,
            "file-count": 1,
            "files": [
                {
                    "path": "part-00000-b5083473-fb27-4411-89b5-5d788a51fadc.parquet",
                    "partitionValues": {},
                    "size": 1155,
                    "modificationTime": 1794737732278,
                    "dataChange": True,
                    "stats": '{"numRecords":3}',
                }
            ],
        },
    ),
)
async def list_files(call: Call[NoBody, FilesQuery], ports: Ports) -> Answer:
    """List the files of a version, with its schema and protocol. `offset` continues a long list.

    A file with a deletion vector has the rows of the vector removed. With `app_id`, the response has the version of
    that application's last transaction, by which a writer sees that a batch is committed already.
    """
    query, address = call.query, table_at(call.params)
    when = {"version": query.version, "timestamp_ms": query.timestamp_ms}
    found = await files_at(ports, call.caller, address, offset=query.offset, limit=query.limit, **when)
    return Answer(200, await asyncio.to_thread(_response, found, query.app_id), (JSON,))
