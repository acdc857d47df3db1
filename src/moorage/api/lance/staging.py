"""Locations for tables that are written before they are declared: an extension, for clients with transactions."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from moorage.api.errands import errand_of
from moorage.api.lance.api import Delimited, lance, new_table_of
from moorage.api.lance.bodies import EXAMPLE_LOCATION, EXAMPLE_NEW_TABLE, DeclareTableResponse, Named
from moorage.core.errors import CatalogNotFound, InvalidInput, KeyReused, NamespaceNotFound, NameTaken
from moorage.http import NO_STORE, Answer, Call, Example
from moorage.usecases.lance import tables as lance_tables
from moorage.usecases.lance.storage_options import new_storage_options
from moorage.usecases.ports import Ports


class StageTableRequest(Named, frozen=True, kw_only=True, omit_defaults=True):
    """A table to be declared later."""

    location: Annotated[str | None, Meta(description="The table's location. By default the catalog assigns one.")] = (
        None
    )


@lance.post(
    "/v1/table/{id}/stage",
    operation="StageTable",
    summary="Reserve a location for a table.",
    stage="public_preview",
    tags=("tables",),
    body=StageTableRequest,
    body_required=False,
    answer=DeclareTableResponse,
    errors=(InvalidInput, NameTaken, KeyReused, CatalogNotFound, NamespaceNotFound),
    example=Example(
        path=EXAMPLE_NEW_TABLE,
        body={},
        answer={"location": EXAMPLE_LOCATION, "properties": {}, "managed_versioning": True},
    ),
)
async def stage_table(call: Call[StageTableRequest, Delimited], ports: Ports) -> Answer:
    """Return a location for a table that is declared later. The table is visible after a batch commit that declares it
    with this location and creates its first version. If it is not declared within a day, its files are deleted.
    """
    address = new_table_of(call, call.body.id)
    location = await lance_tables.stage_table(ports, errand_of(call, ports), address, location=call.body.location)
    # A location of the caller's own choice is checked for its privileges when the table is declared, not before.
    is_assigned = ports.roots.contain(f"{location}/")
    options = await new_storage_options(ports, (f"{location}/",), vend=None) if is_assigned else None
    body = DeclareTableResponse(location=location, storage_options=options, properties={}, managed_versioning=True)
    return Answer.json(body, headers=(NO_STORE,))
