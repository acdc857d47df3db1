"""Creating staging tables and tables."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from moorage.api.delta.api import delta
from moorage.api.delta.bodies import (
    EXAMPLE_COLUMNS,
    EXAMPLE_ID,
    EXAMPLE_LOADED,
    EXAMPLE_LOCATION,
    EXAMPLE_SCHEMA,
    Columns,
    DeltaDomainMetadata,
    DeltaLoadTableResponse,
    DeltaProtocol,
    DeltaStorageCredential,
    DeltaUniformMetadata,
    Features,
    TableType,
    credentials_for,
    new_table_at,
    to_wire_location,
)
from moorage.api.delta.load import MISSING, table_answer
from moorage.api.errands import errand_of
from moorage.core.errors import CatalogNotFound, InvalidInput, NamespaceNotFound, NameTaken, PlaceTaken
from moorage.core.securables import Securable
from moorage.formats.delta.contract import CHECKPOINT_POLICY, DELTA_API_TERMS, NOT_WITH_ICEBERG_V2, TABLE_ID
from moorage.formats.delta.schema import parse_wire_schema
from moorage.formats.delta.staging import staging_terms
from moorage.http import NO_STORE, Answer, Call, Example, Int64, NoQuery
from moorage.usecases.catalog.addresses import Address
from moorage.usecases.catalog.credentials import FileAccess, for_changed
from moorage.usecases.delta.external import Description, create_described_table
from moorage.usecases.delta.tables import NewTable, create_managed_table, stage_table
from moorage.usecases.delta.updates import LoadedTable, to_stated_metadata
from moorage.usecases.ports import Ports

routes = delta.section(tags=("delta tables",))


class DeltaCreateStagingTableRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The table that the client will write."""

    name: str


class DeltaRequiredProtocol(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """The protocol that the first commit must have at least."""

    min_reader_version: Int64
    min_writer_version: Int64
    reader_features: Features
    writer_features: Features


class DeltaSuggestedProtocol(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """Features that the first commit should have if the client supports them."""

    reader_features: Features
    writer_features: Features


class DeltaStagingTableResponse(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """The location and the required content of the first commit. Null means that the client generates the value."""

    table_id: str
    table_type: TableType
    location: str
    storage_credentials: list[DeltaStorageCredential]
    required_protocol: DeltaRequiredProtocol
    suggested_protocol: DeltaSuggestedProtocol
    required_properties: dict[str, str | None]
    suggested_properties: dict[str, str | None]


def _staging_response(table_id: str, access: FileAccess) -> dict[str, Any]:
    return {
        "table-id": table_id,
        "table-type": "MANAGED",
        "location": to_wire_location(access.location),
        "storage-credentials": msgspec.to_builtins(credentials_for(access, "READ_WRITE")),
        **msgspec.to_builtins(staging_terms(table_id)),
    }


@routes.post(
    "/catalogs/{catalog}/schemas/{schema}/staging-tables",
    operation="createDeltaStagingTable",
    summary="Reserve a location for a managed table.",
    body=DeltaCreateStagingTableRequest,
    answer=DeltaStagingTableResponse,
    errors=(InvalidInput, NameTaken, CatalogNotFound, NamespaceNotFound),
    example=Example(
        path=EXAMPLE_SCHEMA, body={"name": "visits"}, answer=_staging_response(EXAMPLE_ID, FileAccess(EXAMPLE_LOCATION))
    ),
)
async def create_staging_table(call: Call[DeltaCreateStagingTableRequest, NoQuery], ports: Ports) -> Answer:
    """Reserve an id and a location. Write the first commit there, then create the table. Unused, it expires."""
    address = new_table_at(call.params, call.body.name)
    staged = await stage_table(ports, errand_of(call, ports), address)
    access = await for_changed(ports, staged.locations)
    return Answer.json(_staging_response(staged.id, access), headers=(NO_STORE,))


class DeltaCreateTableRequest(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """The table to create: a managed table at its staging location, or an external table at its own."""

    name: str
    location: str
    table_type: TableType
    comment: str | None = None
    columns: Columns
    partition_columns: list[str] | None = None
    protocol: DeltaProtocol
    properties: dict[str, str] | None = None
    domain_metadata: DeltaDomainMetadata | None = None
    last_commit_timestamp_ms: Int64
    uniform: DeltaUniformMetadata | None = None

    def description(self) -> Description:
        domains = self.domain_metadata or DeltaDomainMetadata()
        return Description(
            comment=self.comment,
            schema=parse_wire_schema(self.columns),
            partition_columns=tuple(self.partition_columns or ()),
            protocol=self.protocol.to_protocol(),
            set_properties=self.properties or {},
            clustering_columns=None if domains.clustering is None else domains.clustering.paths,
            row_id_mark=None if domains.row_tracking is None else domains.row_tracking.row_id_high_water_mark,
            last_version=0,
            last_timestamp_ms=self.last_commit_timestamp_ms,
        )


_NEW_TABLE: dict[str, Any] = {
    "name": "archive",
    "location": "file:///data/archive",
    "table-type": "EXTERNAL",
    "columns": EXAMPLE_COLUMNS,
    "protocol": {"min-reader-version": 1, "min-writer-version": 2},
    "properties": {},
    "last-commit-timestamp-ms": 1794737732278,
}


@routes.post(
    "/catalogs/{catalog}/schemas/{schema}/tables",
    operation="createDeltaTable",
    summary="Create a table.",
    body=DeltaCreateTableRequest,
    answer=DeltaLoadTableResponse,
    errors=(InvalidInput, NameTaken, PlaceTaken, *MISSING),
    example=Example(path=EXAMPLE_SCHEMA, body=_NEW_TABLE, answer=EXAMPLE_LOADED),
)
async def create_table(call: Call[DeltaCreateTableRequest, NoQuery], ports: Ports) -> Answer:
    """Create a managed table from the first commit at its staging location, or register an external table."""
    body = call.body
    address = new_table_at(call.params, body.name)
    if not body.location.strip():
        raise InvalidInput("location is required", field="location")
    created = await (_create_managed if body.table_type == "MANAGED" else _create_external)(call, ports, address)
    return await table_answer(ports, LoadedTable(created))


async def _create_external(call: Call[DeltaCreateTableRequest, NoQuery], ports: Ports, address: Address) -> Securable:
    description, location = call.body.description(), call.body.location
    if call.body.uniform is not None:
        raise InvalidInput("uniform is not allowed for an external table; its owner converts it", field="uniform")
    return await create_described_table(ports, errand_of(call, ports), address, description, location)


async def _create_managed(call: Call[DeltaCreateTableRequest, NoQuery], ports: Ports, address: Address) -> Securable:
    body = call.body
    properties = body.properties or {}
    _require_fixed_properties(properties)
    description = body.description()
    stated = {key: value for key, value in description.set_properties.items() if key != CHECKPOINT_POLICY}
    new = NewTable(
        address=address,
        location=body.location,
        table_id=properties.get(TABLE_ID),
        stated=to_stated_metadata(replace(description, set_properties=stated)),
        comment=body.comment,
        terms=DELTA_API_TERMS,
        timestamp_ms=body.last_commit_timestamp_ms,
        uniform=None if body.uniform is None else body.uniform.to_block(),
        has_uniform=body.uniform is not None,
    )
    return await create_managed_table(ports, errand_of(call, ports), new)


def _require_fixed_properties(properties: dict[str, str]) -> None:
    """Require the properties that the staging response demanded."""
    is_iceberg_v2 = properties.get("delta.enableIcebergCompatV2") == "true"
    for key, value in DELTA_API_TERMS.properties.items():
        if properties.get(key) != value and not (is_iceberg_v2 and key in NOT_WITH_ICEBERG_V2):
            raise InvalidInput(f"the property {key} must be {value!r}", field=f"properties.{key}")
