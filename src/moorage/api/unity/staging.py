"""Staging tables: an id and a place for a table that its client is about to write."""

from __future__ import annotations

import msgspec

from moorage.api.errands import errand_of
from moorage.api.unity.api import unity
from moorage.api.unity.names import new_address
from moorage.api.unity.shapes import EXAMPLE_ID, Name, location_of
from moorage.core.errors import CatalogNotFound, InvalidInput, NamespaceNotFound, NameTaken
from moorage.core.securables import Kind
from moorage.http import Answer, Call, Example, NoQuery
from moorage.usecases.delta.families import require_older_families
from moorage.usecases.delta.tables import stage_table
from moorage.usecases.ports import Ports


class CreateStagingTable(msgspec.Struct, frozen=True, kw_only=True):
    """A table that is going to be written."""

    name: Name
    catalog_name: str
    schema_name: str


class StagingTableInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Where to write it. It is no table yet: nobody else sees it."""

    name: str
    catalog_name: str
    schema_name: str
    id: str
    staging_location: str


_STAGED = {"name": "visits", "catalog_name": "sample", "schema_name": "sales"}


@unity.post(
    "/staging-tables",
    operation="createStagingTable",
    summary="Reserve a place for a managed table.",
    tags=("tables",),
    body=CreateStagingTable,
    answer=StagingTableInfo,
    errors=(InvalidInput, NameTaken, CatalogNotFound, NamespaceNotFound),
    example=Example(
        body=_STAGED, answer={**_STAGED, "id": EXAMPLE_ID, "staging_location": f"file:///data/managed/{EXAMPLE_ID}"}
    ),
)
async def create_staging_table(call: Call[CreateStagingTable, NoQuery], ports: Ports) -> Answer:
    """Get an id and a location, write the first commit there, then create the table. Unused, it expires."""
    require_older_families(ports.managed_tables)
    body = call.body
    address = new_address(Kind.TABLE, body.catalog_name, body.schema_name, body.name)
    staged = await stage_table(ports, errand_of(call, ports), address)
    return Answer.json(
        StagingTableInfo(
            name=body.name,
            catalog_name=body.catalog_name,
            schema_name=body.schema_name,
            id=staged.id,
            staging_location=location_of(staged.doc.location) or "",
        )
    )
