"""Credentials for files. Local disk needs none, so the config is empty."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from moorage.api.delta.api import delta
from moorage.api.delta.bodies import (
    EXAMPLE_LOCATION,
    EXAMPLE_STAGING_ID,
    EXAMPLE_TABLE,
    CredentialOperation,
    DeltaCredentialsResponse,
    credentials_for,
    table_at,
)
from moorage.api.delta.load import MISSING
from moorage.core.errors import InvalidInput, TableNotFound, Unavailable, Unsupported
from moorage.http import NO_STORE, Answer, Call, Example, NoBody, NoQuery
from moorage.usecases.catalog import credentials
from moorage.usecases.catalog.credentials import FileAccess
from moorage.usecases.delta.tables import staging_access
from moorage.usecases.delta.updates import load_delta_table
from moorage.usecases.ports import Ports

routes = delta.section(tags=("delta credentials",))


class TableCredentialsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The intended access."""

    operation: Annotated[CredentialOperation, Meta(description="READ_WRITE if files will be written.")]


class PathCredentialsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The folder, and the intended access."""

    location: Annotated[str, Meta(description="The folder of an external table that does not exist yet.")]
    operation: Annotated[CredentialOperation, Meta(description="READ_WRITE if files will be written.")]


def _answer(access: FileAccess, operation: CredentialOperation) -> Answer:
    body = DeltaCredentialsResponse(storage_credentials=credentials_for(access, operation))
    return Answer.json(body, headers=(NO_STORE,))


_READ = {"storage-credentials": msgspec.to_builtins(credentials_for(FileAccess(EXAMPLE_LOCATION), "READ"))}
_WRITE = {"storage-credentials": msgspec.to_builtins(credentials_for(FileAccess(EXAMPLE_LOCATION), "READ_WRITE"))}


@routes.get(
    "/catalogs/{catalog}/schemas/{schema}/tables/{table}/credentials",
    operation="getDeltaTableCredentials",
    summary="Get credentials for a table.",
    query=TableCredentialsQuery,
    answer=DeltaCredentialsResponse,
    errors=(InvalidInput, Unsupported, Unavailable, *MISSING),
    example=Example(path=EXAMPLE_TABLE, query={"operation": "READ"}, answer=_READ),
)
async def get_table_credentials(call: Call[NoBody, TableCredentialsQuery], ports: Ports) -> Answer:
    """Return credentials for the files of a table."""
    table = await load_delta_table(ports, call.caller, table_at(call.params))
    write = call.query.operation == "READ_WRITE"
    return _answer(await credentials.for_table(ports, call.caller, table.id, write=write), call.query.operation)


@routes.get(
    "/staging-tables/{table_id}/credentials",
    operation="getDeltaStagingTableCredentials",
    summary="Get credentials for a staging table.",
    answer=DeltaCredentialsResponse,
    errors=(InvalidInput, Unsupported, Unavailable, TableNotFound),
    example=Example(path={"table_id": EXAMPLE_STAGING_ID}, answer=_WRITE),
)
async def get_staging_credentials(call: Call[NoBody, NoQuery], ports: Ports) -> Answer:
    """Return credentials for a staging table to the caller that created it. A created table is not a staging table."""
    return _answer(await staging_access(ports, call.caller, call.params["table_id"]), "READ_WRITE")


@routes.get(
    "/temporary-path-credentials",
    operation="getDeltaPathCredentials",
    summary="Get credentials for a folder.",
    query=PathCredentialsQuery,
    answer=DeltaCredentialsResponse,
    errors=(InvalidInput, Unsupported, Unavailable),
    example=Example(query={"location": EXAMPLE_LOCATION, "operation": "READ_WRITE"}, answer=_WRITE),
)
async def get_path_credentials(call: Call[NoBody, PathCredentialsQuery], ports: Ports) -> Answer:
    """Return credentials for a folder that is not a table yet, so that a client can write one there."""
    write = call.query.operation == "READ_WRITE"
    return _answer(
        await credentials.for_path(ports, call.caller, call.query.location, write=write, field="location"),
        call.query.operation,
    )
