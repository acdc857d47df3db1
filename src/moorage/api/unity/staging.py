"""Staging tables: an id and a location for a table that the client will write."""

from __future__ import annotations

import msgspec

from moorage.api.errands import errand_of
from moorage.api.unity.api import unity
from moorage.api.unity.names import new_address
from moorage.api.unity.shapes import EXAMPLE_ID, Name, to_wire_location
from moorage.core.errors import CatalogNotFound, InvalidInput, NamespaceNotFound, NameTaken
from moorage.core.securables import Kind
from moorage.http import Answer, Call, Example, NoQuery
from moorage.usecases.delta.families import require_older_families_enabled
from moorage.usecases.delta.tables import stage_table
from moorage.usecases.ports import Ports


class CreateStagingTable(msgspec.Struct, frozen=True, kw_only=True):
    """The table that the client will write."""

    name: Name
    catalog_name: str
    schema_name: str


class StagingTableInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A staging table and its location. It is not a table yet, and only the caller that created it can use it."""

    name: str
    catalog_name: str
    schema_name: str
    id: str
    staging_location: str


_STAGED = {"name": "visits", "catalog_name": "sample", "schema_name": "sales"}


@unity.post(
    "/staging-tables",
    operation="createStagingTable",
    summary="Reserve a location for a managed table.",
    tags=("tables",),
    body=CreateStagingTable,
    answer=StagingTableInfo,
    errors=(InvalidInput, NameTaken, CatalogNotFound, NamespaceNotFound),
    example=Example(
        body=_STAGED, answer={**_STAGED, "id": EXAMPLE_ID, "staging_location": f"file:///data/managed/{EXAMPLE_ID}"}
    ),
)
async def create_staging_table(call: Call[CreateStagingTable, NoQuery], ports: Ports) -> Answer:
    """Reserve an id and a location. Write the first commit there, then create the table. Unused, it expires."""
    require_older_families_enabled(ports.managed_tables)
    body = call.body
    address = new_address(Kind.TABLE, body.catalog_name, body.schema_name, body.name)
    staged = await stage_table(ports, errand_of(call, ports), address)
    return Answer.json(
        StagingTableInfo(
            name=body.name,
            catalog_name=body.catalog_name,
            schema_name=body.schema_name,
            id=staged.id,
            staging_location=to_wire_location(staged.doc.location) or "",
        )
    )
