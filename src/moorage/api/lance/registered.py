"""Routes that register and rename tables, and list the tables of all namespaces."""

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
from moorage.api.lance.tables import MISSING_TABLE
from moorage.core.errors import CatalogNotFound, InvalidInput, NamespaceNotFound, NameTaken, PlaceTaken
from moorage.formats.lance.identifiers import require_addressable, to_text
from moorage.http import Answer, Call, Example, NoBody
from moorage.usecases.lance import listing as lance_listing
from moorage.usecases.lance import registration as lance_registration
from moorage.usecases.lance import tables as lance_tables
from moorage.usecases.lance.lookup import client_location, table_address
from moorage.usecases.lance.registration import Registration
from moorage.usecases.ports import Ports

routes = lance.section(tags=("tables",))


class IfRegistered(Enum):
    """What to do if the name is taken by a table."""

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
    """Register an existing dataset at its location. Its manifests define its versions, which the catalog manages."""
    body = call.body
    new = Registration(
        address=new_table_of(call, body.id),
        location=body.location,
        properties=body.properties or {},
        overwrite=parse_mode(body.mode, IfRegistered.CREATE) is IfRegistered.OVERWRITE,
    )
    made = await lance_registration.register_table(ports, errand_of(call, ports), new)
    return Answer.json(RegisterTableResponse(location=client_location(made), properties=made.doc.properties))


@routes.post(
    "/v1/table/{id}/rename",
    operation="RenameTable",
    summary="Rename a table.",
    body=RenameTableRequest,
    answer=RenameTableResponse,
    errors=(InvalidInput, NameTaken, *MISSING_TABLE),
    example=Example(path=EXAMPLE_TABLE, body={"new_table_name": "embeddings_old"}, answer={}),
)
async def rename_table(call: Call[RenameTableRequest, Delimited], ports: Ports) -> Answer:
    """Rename a table, within its namespace or into another one. No file moves."""
    body = call.body
    address = table_of(call, body.id)
    namespace = address.path[:-1] if body.new_namespace_id is None else tuple(body.new_namespace_id)
    to = table_address(
        require_addressable((*namespace, body.new_table_name), delimiter_of(call), "new_table_name"), "new_table_name"
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
    """List the identifiers of the Lance tables in all namespaces. A page that is short or empty may not be the last."""
    query = call.query
    found, token = await lance_listing.list_all_tables(
        ports, call.caller, token=query.page_token, limit=query.size, declared=query.include_declared
    )
    tables = [to_text(path, delimiter_of(call)) for path in found]
    return Answer.json(ListTablesResponse(tables=tables, page_token=token))
