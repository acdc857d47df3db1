"""A place for a table that is written before anybody declares it: Moorage's own, for clients with transactions."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from moorage.api.errands import errand_of
from moorage.api.lance.api import Delimited, lance, new_table_of
from moorage.api.lance.bodies import EXAMPLE_LOCATION, EXAMPLE_NEW_TABLE, DeclareTableResponse, Named
from moorage.core.errors import CatalogNotFound, InvalidInput, KeyReused, NamespaceNotFound, NameTaken
from moorage.http import Answer, Call, Example
from moorage.usecases.lance import tables as lance_tables
from moorage.usecases.ports import Ports


class StageTableRequest(Named, frozen=True, kw_only=True, omit_defaults=True):
    """A table to come."""

    location: Annotated[str | None, Meta(description="Where its files will lie; else the catalog gives a place.")] = (
        None
    )


@lance.post(
    "/v1/table/{id}/stage",
    operation="StageTable",
    summary="Find a place for a table to come.",
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
    """Where it may be written. A batch commit that declares it with this location and creates its first version
    makes it real; until then nobody sees it. What is not declared within a day goes, with its files.
    """
    address = new_table_of(call, call.body.id)
    location = await lance_tables.stage_table(ports, errand_of(call, ports), address, location=call.body.location)
    return Answer.json(DeclareTableResponse(location=location, properties={}, managed_versioning=True))
