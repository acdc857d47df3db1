"""Temporary credentials for files: each opens one folder. Files on local disk need only the URL."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from moorage.api.unity.api import unity
from moorage.api.unity.model_versions import VersionNumber
from moorage.api.unity.names import address_in
from moorage.api.unity.shapes import EXAMPLE_ID, EXAMPLE_VOLUME_ID, Location, Millis, to_wire_location
from moorage.core.errors import (
    CatalogNotFound,
    InvalidInput,
    NamespaceNotFound,
    SecurableNotFound,
    TableNotFound,
    Unavailable,
    Unsupported,
)
from moorage.core.securables import Kind
from moorage.core.vended import VendedKey, VendedToken
from moorage.http import NO_STORE, Answer, Call, Example, NoQuery
from moorage.usecases.catalog import credentials
from moorage.usecases.catalog.credentials import FileAccess
from moorage.usecases.delta.credentials import access_for_older_families
from moorage.usecases.ports import Ports

routes = unity.section(tags=("credentials",))


class AwsCredentials(msgspec.Struct, frozen=True, kw_only=True):
    """Temporary credentials of AWS or an S3-compatible store."""

    access_key_id: str
    secret_access_key: str
    session_token: str
    endpoint: Annotated[str | None, Meta(description="The address of the store.")] = None
    region: Annotated[str | None, Meta(description="The region of the store.")] = None
    path_style: Annotated[bool | None, Meta(description="Whether the bucket is the first part of the path.")] = None


class AzureUserDelegationSAS(msgspec.Struct, frozen=True, kw_only=True):
    """An Azure shared access signature for one folder."""

    sas_token: str


class GcpOauthToken(msgspec.Struct, frozen=True, kw_only=True):
    """A Google Cloud token."""

    oauth_token: str


class TemporaryCredentials(msgspec.Struct, frozen=True, kw_only=True):
    """Temporary credentials for a folder. If only `url` is set, no credentials are needed."""

    aws_temp_credentials: AwsCredentials | None = None
    azure_user_delegation_sas: AzureUserDelegationSAS | None = None
    gcp_oauth_token: GcpOauthToken | None = None
    expiration_time: Annotated[Millis | None, Meta(description="Null means that the credentials never expire.")] = None
    url: str | None


class GenerateTemporaryTableCredential(msgspec.Struct, frozen=True, kw_only=True):
    """The table, or a staging table that the caller created."""

    table_id: str
    operation: Literal["READ", "READ_WRITE"]


class GenerateTemporaryPathCredential(msgspec.Struct, frozen=True, kw_only=True):
    """The folder."""

    url: Location
    operation: Literal["PATH_READ", "PATH_READ_WRITE", "PATH_CREATE_TABLE"]


class GenerateTemporaryVolumeCredential(msgspec.Struct, frozen=True, kw_only=True):
    """The volume."""

    volume_id: str
    operation: Literal["READ_VOLUME", "WRITE_VOLUME"]


class GenerateTemporaryModelVersionCredential(msgspec.Struct, frozen=True, kw_only=True):
    """The version of a model."""

    catalog_name: str
    schema_name: str
    model_name: str
    version: VersionNumber
    operation: Literal["READ_MODEL_VERSION", "READ_WRITE_MODEL_VERSION"]


_EXAMPLE: dict[str, Any] = {
    "aws_temp_credentials": None,
    "azure_user_delegation_sas": None,
    "gcp_oauth_token": None,
    "expiration_time": None,
    "url": "file:///data/orders",
}


def _answer(access: FileAccess) -> Answer:
    url, key, store = to_wire_location(access.location), access.key, access.store
    match key:
        case None:
            return Answer.json(TemporaryCredentials(url=url))
        case VendedKey():
            aws = AwsCredentials(
                access_key_id=key.access_key_id,
                secret_access_key=key.secret_access_key,
                session_token=key.session_token,
                endpoint=None if store is None else store.endpoint,
                region=None if store is None else store.region,
                path_style=None if store is None else store.path_style,
            )
            found = TemporaryCredentials(url=url, aws_temp_credentials=aws, expiration_time=key.expires_at_ms)
        case VendedToken():
            token = GcpOauthToken(oauth_token=key.token)
            found = TemporaryCredentials(url=url, gcp_oauth_token=token, expiration_time=key.expires_at_ms)
        case _:
            sas = AzureUserDelegationSAS(sas_token=key.sas_token)
            found = TemporaryCredentials(url=url, azure_user_delegation_sas=sas, expiration_time=key.expires_at_ms)
    return Answer.json(found, headers=(NO_STORE,))


@routes.post(
    "/temporary-table-credentials",
    operation="generateTemporaryTableCredentials",
    summary="Generate temporary credentials for a table.",
    body=GenerateTemporaryTableCredential,
    answer=TemporaryCredentials,
    errors=(InvalidInput, TableNotFound, Unsupported, Unavailable),
    mutation=False,
    example=Example(body={"table_id": EXAMPLE_ID, "operation": "READ"}, answer=_EXAMPLE),
)
async def for_table(call: Call[GenerateTemporaryTableCredential, NoQuery], ports: Ports) -> Answer:
    """Return credentials for the files of a table, which is identified by its id."""
    write = call.body.operation == "READ_WRITE"
    return _answer(await access_for_older_families(ports, call.caller, call.body.table_id, write=write))


@routes.post(
    "/temporary-path-credentials",
    operation="generateTemporaryPathCredentials",
    summary="Generate temporary credentials for a folder.",
    body=GenerateTemporaryPathCredential,
    answer=TemporaryCredentials,
    errors=(InvalidInput, Unsupported, Unavailable),
    mutation=False,
    example=Example(body={"url": "file:///data/orders", "operation": "PATH_READ"}, answer=_EXAMPLE),
)
async def for_path(call: Call[GenerateTemporaryPathCredential, NoQuery], ports: Ports) -> Answer:
    """Return credentials for a folder, for a client that will register its content."""
    write, creates = call.body.operation != "PATH_READ", call.body.operation == "PATH_CREATE_TABLE"
    return _answer(await credentials.for_path(ports, call.caller, call.body.url, write=write, creates=creates))


@routes.post(
    "/temporary-volume-credentials",
    operation="generateTemporaryVolumeCredentials",
    summary="Generate temporary credentials for a volume.",
    body=GenerateTemporaryVolumeCredential,
    answer=TemporaryCredentials,
    errors=(InvalidInput, SecurableNotFound, Unsupported, Unavailable),
    mutation=False,
    example=Example(body={"volume_id": EXAMPLE_VOLUME_ID, "operation": "READ_VOLUME"}, answer=_EXAMPLE),
)
async def for_volume(call: Call[GenerateTemporaryVolumeCredential, NoQuery], ports: Ports) -> Answer:
    """Return credentials for the files of a volume, which is identified by its id."""
    write = call.body.operation == "WRITE_VOLUME"
    return _answer(await credentials.for_volume(ports, call.caller, call.body.volume_id, write=write))


@routes.post(
    "/temporary-model-version-credentials",
    operation="generateTemporaryModelVersionCredentials",
    summary="Generate temporary credentials for a version of a model.",
    body=GenerateTemporaryModelVersionCredential,
    answer=TemporaryCredentials,
    errors=(InvalidInput, CatalogNotFound, NamespaceNotFound, SecurableNotFound, Unsupported, Unavailable),
    mutation=False,
    example=Example(
        body={
            "catalog_name": "sample",
            "schema_name": "sales",
            "model_name": "churn",
            "version": 1,
            "operation": "READ_MODEL_VERSION",
        },
        answer=_EXAMPLE,
    ),
)
async def for_model_version(call: Call[GenerateTemporaryModelVersionCredential, NoQuery], ports: Ports) -> Answer:
    """Return credentials for the files of a version of a model."""
    body = call.body
    address = address_in(Kind.MODEL, body.catalog_name, body.schema_name, body.model_name)
    write = body.operation == "READ_WRITE_MODEL_VERSION"
    return _answer(await credentials.for_model_version(ports, call.caller, address, body.version, write=write))
