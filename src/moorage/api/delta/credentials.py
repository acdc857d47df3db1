"""What clients need to reach files: nothing on local disk, which an empty config says."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from moorage.api.delta.api import delta
from moorage.api.delta.bodies import (
    EXAMPLE_PLACE,
    EXAMPLE_STAGE_ID,
    EXAMPLE_TABLE,
    CredentialOperation,
    DeltaCredentialsResponse,
    credentials_for,
    table_at,
)
from moorage.api.delta.load import MISSING
from moorage.core.errors import InvalidInput, TableNotFound, Unsupported
from moorage.http import Answer, Call, Example, NoBody, NoQuery
from moorage.usecases.catalog import credentials
from moorage.usecases.delta.tables import staged_place
from moorage.usecases.delta.updates import load_delta
from moorage.usecases.ports import Ports

routes = delta.section(tags=("delta credentials",))


class TableCredentialsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """What is going to be done."""

    operation: Annotated[CredentialOperation, Meta(description="Whether files will be written.")]


class PathCredentialsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Where, and what is going to be done."""

    location: Annotated[str, Meta(description="The folder of an external table to be.")]
    operation: Annotated[CredentialOperation, Meta(description="Whether files will be written.")]


def _answer(place: str, operation: CredentialOperation) -> Answer:
    return Answer.json(DeltaCredentialsResponse(storage_credentials=credentials_for(place, operation)))


_READ = {"storage-credentials": msgspec.to_builtins(credentials_for(EXAMPLE_PLACE, "READ"))}
_WRITE = {"storage-credentials": msgspec.to_builtins(credentials_for(EXAMPLE_PLACE, "READ_WRITE"))}


@routes.get(
    "/catalogs/{catalog}/schemas/{schema}/tables/{table}/credentials",
    operation="getDeltaTableCredentials",
    summary="Get credentials for a table.",
    query=TableCredentialsQuery,
    answer=DeltaCredentialsResponse,
    errors=(InvalidInput, Unsupported, *MISSING),
    example=Example(path=EXAMPLE_TABLE, query={"operation": "READ"}, answer=_READ),
)
async def get_table_credentials(call: Call[NoBody, TableCredentialsQuery], ports: Ports) -> Answer:
    """What opens the files of a table."""
    table = await load_delta(ports, call.caller, table_at(call.params))
    write = call.query.operation == "READ_WRITE"
    return _answer(await credentials.for_table(ports, call.caller, table.id, write=write), call.query.operation)


@routes.get(
    "/staging-tables/{table_id}/credentials",
    operation="getDeltaStagingTableCredentials",
    summary="Get credentials for a staged table.",
    answer=DeltaCredentialsResponse,
    errors=(InvalidInput, Unsupported, TableNotFound),
    example=Example(path={"table_id": EXAMPLE_STAGE_ID}, answer=_WRITE),
)
async def get_staging_credentials(call: Call[NoBody, NoQuery], ports: Ports) -> Answer:
    """What opens the place of a staged table to whoever staged it. A finished table is staged no more."""
    return _answer(await staged_place(ports, call.caller, call.params["table_id"]), "READ_WRITE")


@routes.get(
    "/temporary-path-credentials",
    operation="getDeltaPathCredentials",
    summary="Get credentials for a folder.",
    query=PathCredentialsQuery,
    answer=DeltaCredentialsResponse,
    errors=(InvalidInput, Unsupported),
    example=Example(query={"location": EXAMPLE_PLACE, "operation": "READ_WRITE"}, answer=_WRITE),
)
async def get_path_credentials(call: Call[NoBody, PathCredentialsQuery], ports: Ports) -> Answer:
    """What opens a folder that is no table yet, so that one can be written there."""
    write = call.query.operation == "READ_WRITE"
    return _answer(
        credentials.for_path(ports, call.caller, call.query.location, write=write, field="location"),
        call.query.operation,
    )
