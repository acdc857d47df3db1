"""Wire structs that several operations of this API use. Field names are in kebab case."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from moorage.core.errors import InvalidInput
from moorage.core.names import is_addressable_in_unity, require_name
from moorage.core.securables import Kind
from moorage.core.vended import VendedKey, VendedToken
from moorage.formats.delta import clustering
from moorage.formats.delta.actions import Protocol
from moorage.formats.delta.uniform import IcebergBlock
from moorage.http import Int64
from moorage.usecases.catalog import addresses
from moorage.usecases.catalog.addresses import Address
from moorage.usecases.catalog.credentials import FileAccess

TableType = Literal["MANAGED", "EXTERNAL"]
CredentialOperation = Literal["READ", "READ_WRITE"]
Columns = Annotated[dict[str, Any], Meta(description="A Delta struct type, with the keys in kebab case.")]
Features = Annotated[list[str], Meta(description="Names of table features.")]


class DeltaCommit(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """A staged commit: a file in `_delta_log/_staged_commits/`."""

    version: Int64
    timestamp: Int64
    file_name: str
    file_size: Int64
    file_modification_timestamp: Int64


class DeltaProtocol(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """The protocol that a client must support to read or write the table."""

    min_reader_version: Annotated[int, Meta(ge=0, le=2**31 - 1)]
    min_writer_version: Annotated[int, Meta(ge=0, le=2**31 - 1)]
    reader_features: Features | None = None
    writer_features: Features | None = None

    def to_protocol(self) -> Protocol:
        readers, writers = tuple(self.reader_features or ()), tuple(self.writer_features or ())
        for feature in readers:
            if feature not in writers:
                raise InvalidInput(
                    f"protocol.reader-features: {feature!r} must be in writer-features too",
                    field="protocol.reader-features",
                )
        return Protocol(
            min_reader_version=self.min_reader_version,
            min_writer_version=self.min_writer_version,
            reader_features=readers,
            writer_features=writers,
        )


class DeltaClustering(msgspec.Struct, frozen=True, kw_only=True):
    """The clustering columns of the table. Each is a path from the root of the schema."""

    clustering_columns: list[list[str]] = msgspec.field(name="clusteringColumns")

    @property
    def paths(self) -> clustering.ColumnPaths:
        return tuple(tuple(path) for path in self.clustering_columns)


class DeltaRowTracking(msgspec.Struct, frozen=True, kw_only=True):
    """The highest row id that has been assigned."""

    row_id_high_water_mark: Int64 = msgspec.field(name="rowIdHighWaterMark")


class DeltaDomainMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """Domain metadata, by domain."""

    clustering: DeltaClustering | None = msgspec.field(default=None, name="delta.clustering")
    row_tracking: DeltaRowTracking | None = msgspec.field(default=None, name="delta.rowTracking")


class DeltaUniformIceberg(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", omit_defaults=True):
    """The location of the Iceberg metadata of a version."""

    metadata_location: str | None = None
    converted_delta_version: Int64 | None = None
    converted_delta_timestamp: Int64 | str | None = None
    base_converted_delta_version: Int64 | None = None


class DeltaUniformMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """Metadata in other formats that the client wrote."""

    iceberg: DeltaUniformIceberg | None = None

    def to_block(self) -> IcebergBlock | None:
        if (block := self.iceberg) is None:
            return None
        return IcebergBlock(
            metadata_location=block.metadata_location,
            converted_delta_version=block.converted_delta_version,
            converted_delta_timestamp=block.converted_delta_timestamp,
            base_converted_delta_version=block.base_converted_delta_version,
        )


class DeltaTableMetadata(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """A table as its log describes it. `last-commit-version` is the last version that changed more than rows."""

    etag: str
    table_type: TableType
    table_uuid: str
    location: str
    created_time: Int64
    updated_time: Int64
    columns: Columns
    partition_columns: list[str]
    properties: dict[str, str]
    last_commit_version: Int64 | UnsetType = UNSET
    last_commit_timestamp_ms: Int64 | UnsetType = UNSET


class DeltaLoadTableResponse(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """The table, and every commit that may not be published yet, the newest first."""

    metadata: DeltaTableMetadata
    commits: list[DeltaCommit]
    uniform: DeltaUniformMetadata | UnsetType = UNSET
    latest_table_version: Int64 | UnsetType = UNSET


class DeltaStorageCredential(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """Credentials for the files below a prefix. If `config` is empty, no credentials are needed."""

    prefix: str
    operation: CredentialOperation
    config: dict[str, str]
    expiration_time_ms: Int64 | None


class DeltaCredentialsResponse(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """Credentials for the files of a table."""

    storage_credentials: list[DeltaStorageCredential]


def to_wire_location(location: str | None) -> str:
    """Locations end with a slash in the catalog, and without one on the wire."""
    return (location or "").removesuffix("/")


def credentials_for(access: FileAccess, operation: CredentialOperation) -> list[DeltaStorageCredential]:
    """One entry. Delta's client refuses a config with the keys of several clouds, or with an empty session token."""
    key = access.key
    match key:
        case None:
            config = {}
        case VendedKey():
            config = {
                "s3.access-key-id": key.access_key_id,
                "s3.secret-access-key": key.secret_access_key,
                "s3.session-token": key.session_token,
            }
        case VendedToken():
            config = {"gcs.oauth-token": key.token}
        case _:
            config = {"azure.sas-token": key.sas_token}
    return [
        DeltaStorageCredential(
            prefix=to_wire_location(access.location),
            operation=operation,
            config=config,
            expiration_time_ms=None if key is None else key.expires_at_ms,
        )
    ]


def table_at(params: dict[str, str]) -> Address:
    """The address of the table in a request path. A name that Unity cannot address leads to no table."""
    return addresses.table(schema_at(params), params["table"])


def schema_at(params: dict[str, str]) -> Address:
    return addresses.namespace(params["catalog"], params["schema"], field="schema")


def new_table_at(params: dict[str, str], name: str, field: str = "name") -> Address:
    if not name.strip():
        raise InvalidInput(f"{field} is required", field=field)
    if not is_addressable_in_unity(require_name(name, field)):
        raise InvalidInput(
            f"{field} {name!r} contains a dot, a space or a slash, which Unity does not allow", field=field
        )
    return Address(Kind.TABLE, (*schema_at(params).path, name))


EXAMPLE_ID = "01939c1e-5a6f-7cc1-9d3e-8f5a2b7c4d50"
EXAMPLE_STAGING_ID = "01939c1e-5a6f-7cc1-9d3e-8f5a2b7c4d51"
EXAMPLE_LOCATION = f"file:///data/managed/tables/{EXAMPLE_ID}"
EXAMPLE_SCHEMA = {"catalog": "sample", "schema": "sales"}
EXAMPLE_TABLE = {**EXAMPLE_SCHEMA, "table": "events"}
EXAMPLE_COLUMNS: dict[str, Any] = {
    "type": "struct",
    "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}],
}
EXAMPLE_COMMIT: dict[str, Any] = {
    "version": 1,
    "timestamp": 1794737732278,
    "file-name": "00000000000000000001.b5083473-fb27-4411-89b5-5d788a51fadc.json",
    "file-size": 1155,
    "file-modification-timestamp": 1794737732300,
}
EXAMPLE_LOADED: dict[str, Any] = {
    "metadata": {
        "etag": f"{EXAMPLE_ID}-1",
        "table-type": "MANAGED",
        "table-uuid": EXAMPLE_ID,
        "location": EXAMPLE_LOCATION,
        "created-time": 1794737732278,
        "updated-time": 1794737732278,
        "columns": EXAMPLE_COLUMNS,
        "partition-columns": [],
        "properties": {"delta.enableInCommitTimestamps": "true"},
        "last-commit-version": 0,
        "last-commit-timestamp-ms": 1794737732278,
    },
    "commits": [EXAMPLE_COMMIT],
    "latest-table-version": 1,
}
