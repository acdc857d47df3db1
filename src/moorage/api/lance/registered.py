"""Tables: taken in, renamed, and listed wherever they are."""

from __future__ import annotations

from enum import Enum

from moorage.api.errands import errand_of
from moorage.api.lance.api import Delimited, delimiter_of, lance, new_table_of, table_of
from moorage.api.lance.bodies import (
    EXAMPLE_LOCATION,
    EXAMPLE_TABLE,
    ListTablesResponse,
    RegisterTableRequest,
    RegisterTableResponse,
    RenameTableRequest,
    RenameTableResponse,
)
from moorage.api.lance.modes import parse_mode
from moorage.api.lance.namespaces import ListTablesQuery
from moorage.api.lance.tables import MISSING
from moorage.core.errors import CatalogNotFound, InvalidInput, NamespaceNotFound, NameTaken, PlaceTaken
from moorage.formats.lance.identifiers import require_addressable, to_text
from moorage.http import Answer, Call, Example, NoBody
from moorage.usecases.lance import listing as lance_listing
from moorage.usecases.lance import registration as lance_registration
from moorage.usecases.lance import tables as lance_tables
from moorage.usecases.lance.lookup import location_of, table_at
from moorage.usecases.lance.registration import Registration
from moorage.usecases.ports import Ports

routes = lance.section(tags=("tables",))


class IfRegistered(Enum):
    """What to do about a table that has the name already."""

    CREATE = "create"
    OVERWRITE = "overwrite"


@routes.post(
    "/v1/table/{id}/register",
    operation="RegisterTable",
    summary="Register a dataset as a table.",
    body=RegisterTableRequest,
    answer=RegisterTableResponse,
    errors=(InvalidInput, NameTaken, PlaceTaken, CatalogNotFound, NamespaceNotFound),
    example=Example(
        path=EXAMPLE_TABLE,
        body={"location": EXAMPLE_LOCATION, "mode": "Overwrite", "properties": {"owner": "ann"}},
        answer={"location": EXAMPLE_LOCATION, "properties": {"owner": "ann"}},
    ),
)
async def register_table(call: Call[RegisterTableRequest, Delimited], ports: Ports) -> Answer:
    """Take in a dataset where it lies. Its manifests tell its versions, which are the catalog's from now on."""
    body = call.body
    new = Registration(
        address=new_table_of(call, body.id),
        location=body.location,
        properties=body.properties or {},
        overwrite=parse_mode(body.mode, IfRegistered.CREATE) is IfRegistered.OVERWRITE,
    )
    made = await lance_registration.register_table(ports, errand_of(call, ports), new)
    return Answer.json(RegisterTableResponse(location=location_of(made), properties=made.doc.properties))


@routes.post(
    "/v1/table/{id}/rename",
    operation="RenameTable",
    summary="Rename a table.",
    body=RenameTableRequest,
    answer=RenameTableResponse,
    errors=(InvalidInput, NameTaken, *MISSING),
    example=Example(path=EXAMPLE_TABLE, body={"new_table_name": "embeddings_old"}, answer={}),
)
async def rename_table(call: Call[RenameTableRequest, Delimited], ports: Ports) -> Answer:
    """Give a table another name, here or in another namespace. No file moves."""
    body = call.body
    address = table_of(call, body.id)
    space = address.path[:-1] if body.new_namespace_id is None else tuple(body.new_namespace_id)
    to = table_at(
        require_addressable((*space, body.new_table_name), delimiter_of(call), "new_table_name"), "new_table_name"
    )
    await lance_tables.rename_table(ports, errand_of(call, ports), address, to)
    return Answer.json(RenameTableResponse())


@routes.get(
    "/v1/table",
    operation="ListAllTables",
    summary="List all tables.",
    query=ListTablesQuery,
    answer=ListTablesResponse,
    errors=(InvalidInput,),
    example=Example(query={"limit": 100}, answer={"tables": ["sample$sales$vectors"]}),
)
async def list_all_tables(call: Call[NoBody, ListTablesQuery], ports: Ports) -> Answer:
    """The identifiers of the Lance tables in all namespaces. A page may be short, or empty, and not the last."""
    query = call.query
    found, token = await lance_listing.list_all_tables(
        ports, call.caller, token=query.page_token, limit=query.size, declared=query.include_declared
    )
    tables = [to_text(path, delimiter_of(call)) for path in found]
    return Answer.json(ListTablesResponse(tables=tables, page_token=token))
