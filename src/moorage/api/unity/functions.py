"""Functions. The catalog stores them as written, and does not run them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from moorage.api.errands import errand_of
from moorage.api.unity.api import unity
from moorage.api.unity.columns import ColumnTypeName
from moorage.api.unity.names import address_of, new_address
from moorage.api.unity.objects import answer_with_info, page_of_schema
from moorage.api.unity.shapes import (
    EXAMPLE_ID,
    EXAMPLE_STAMPS,
    NOTHING,
    Int32,
    Name,
    Nothing,
    SchemaPaging,
    Stamped,
    Text,
    only_addressable,
    stamps,
)
from moorage.api.unity.table_bodies import DependencyList
from moorage.core.errors import CatalogNotFound, InvalidInput, NamespaceNotFound, NameTaken, SecurableNotFound
from moorage.core.names import require_name
from moorage.core.securables import Doc, Kind, Securable, Shelf
from moorage.http import Answer, Call, Example, NoBody, NoQuery
from moorage.usecases.catalog import browse, objects
from moorage.usecases.catalog.relations import ROUTINE
from moorage.usecases.ports import Ports

routes = unity.section(tags=("functions",))


class FunctionParameterInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One parameter of a function, or one column that it returns."""

    name: str
    type_text: str
    type_json: str
    type_name: ColumnTypeName
    type_precision: Int32 | None = None
    type_scale: Int32 | None = None
    type_interval_type: str | None = None
    position: Int32
    parameter_mode: Literal["IN"] | None = None
    parameter_type: Literal["PARAM", "COLUMN"] | None = None
    parameter_default: str | None = None
    comment: Text | None = None


class FunctionParameterInfos(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of a function, in order."""

    parameters: list[FunctionParameterInfo] | None = None


class Routine(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters, the body and the result of a function."""

    input_params: FunctionParameterInfos
    data_type: ColumnTypeName
    full_data_type: str
    return_params: FunctionParameterInfos | None = None
    routine_body: Annotated[str, Meta(description="SQL, or EXTERNAL for the language in external_language.")]
    routine_definition: str
    routine_dependencies: DependencyList | None = None
    parameter_style: str
    is_deterministic: bool
    sql_data_access: str
    is_null_call: bool
    security_type: str
    specific_name: str
    properties: Annotated[str | None, Meta(description="A JSON object as a string.")] = None
    external_language: str | None = None


class CreateFunction(Routine, frozen=True, kw_only=True):
    """The function to create."""

    name: Name
    catalog_name: str
    schema_name: str
    comment: Text | None = None


class CreateFunctionRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The function to create."""

    function_info: CreateFunction


class FunctionInfo(Stamped, frozen=True, kw_only=True):
    """A function."""

    name: str
    catalog_name: str
    schema_name: str
    input_params: FunctionParameterInfos
    data_type: ColumnTypeName
    full_data_type: str
    return_params: FunctionParameterInfos | None
    routine_body: str
    routine_definition: str
    routine_dependencies: DependencyList | None
    parameter_style: str
    is_deterministic: bool
    sql_data_access: str
    is_null_call: bool
    security_type: str
    specific_name: str
    comment: str | None
    properties: str | None
    full_name: str
    function_id: str
    external_language: str | None


class ListFunctionsResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A page of functions. Without a token it is the last page."""

    functions: list[FunctionInfo]
    next_page_token: str | None


def function_info(securable: Securable, catalog_name: str, schema_name: str) -> FunctionInfo:
    routine = msgspec.convert(securable.doc.details[ROUTINE], Routine)
    return FunctionInfo(
        name=securable.name,
        catalog_name=catalog_name,
        schema_name=schema_name,
        comment=securable.doc.comment,
        full_name=f"{catalog_name}.{schema_name}.{securable.name}",
        function_id=securable.id,
        **msgspec.structs.asdict(routine),
        **stamps(securable),
    )


_ROUTINE: dict[str, Any] = {
    "input_params": {
        "parameters": [
            {
                "name": "x",
                "type_text": "int",
                "type_json": '{"name":"x","type":"integer","nullable":true,"metadata":{}}',
                "type_name": "INT",
                "position": 0,
            }
        ]
    },
    "data_type": "INT",
    "full_data_type": "INT",
    "routine_body": "EXTERNAL",
    "routine_definition": "return x + 1",
    "parameter_style": "S",
    "is_deterministic": True,
    "sql_data_access": "NO_SQL",
    "is_null_call": False,
    "security_type": "DEFINER",
    "specific_name": "plus_one",
    "external_language": "python",
}
_EXAMPLE: dict[str, Any] = {
    **_ROUTINE,
    "return_params": None,
    "routine_dependencies": None,
    "properties": None,
    "name": "plus_one",
    "catalog_name": "sample",
    "schema_name": "sales",
    "comment": None,
    "full_name": "sample.sales.plus_one",
    "function_id": EXAMPLE_ID,
    **EXAMPLE_STAMPS,
}
_PLUS_ONE = {"name": "sample.sales.plus_one"}
_MISSING = (CatalogNotFound, NamespaceNotFound, SecurableNotFound)


@routes.post(
    "/functions",
    operation="createFunction",
    summary="Create a function.",
    body=CreateFunctionRequest,
    answer=FunctionInfo,
    errors=(InvalidInput, CatalogNotFound, NamespaceNotFound, NameTaken),
    example=Example(
        body={"function_info": _ROUTINE | {"name": "plus_one", "catalog_name": "sample", "schema_name": "sales"}},
        answer=_EXAMPLE,
    ),
)
async def create_function(call: Call[CreateFunctionRequest, NoQuery], ports: Ports) -> Answer:
    """Create a function. The catalog does not run it, so it does not check the body."""
    body = call.body.function_info
    for index, parameter in enumerate(body.input_params.parameters or ()):
        require_name(parameter.name, f"function_info.input_params.parameters[{index}].name")
    address = new_address(Kind.FUNCTION, body.catalog_name, body.schema_name, body.name)
    routine = {field: getattr(body, field) for field in Routine.__struct_fields__}
    doc = Doc(comment=body.comment, details={ROUTINE: msgspec.to_builtins(routine)})
    return await answer_with_info(
        ports, await objects.create(ports, errand_of(call, ports), address, doc), function_info
    )


@routes.get(
    "/functions",
    operation="listFunctions",
    summary="List functions.",
    query=SchemaPaging,
    answer=ListFunctionsResponse,
    errors=(InvalidInput, CatalogNotFound, NamespaceNotFound),
    example=Example(
        query={"catalog_name": "sample", "schema_name": "sales"},
        answer={"functions": [_EXAMPLE], "next_page_token": None},
    ),
)
async def list_functions(call: Call[NoBody, SchemaPaging], ports: Ports) -> Answer:
    """List the functions of a schema, ordered by name."""
    page = await page_of_schema(ports, call.caller, call.query, Shelf.FUNCTION)
    found = [function_info(item, *(part.name for part in page.above)) for item in only_addressable(page.items)]
    return Answer.json(ListFunctionsResponse(functions=found, next_page_token=page.next_token))


@routes.get(
    "/functions/{name}",
    operation="getFunction",
    summary="Get a function.",
    answer=FunctionInfo,
    errors=(InvalidInput, *_MISSING),
    example=Example(path=_PLUS_ONE, answer=_EXAMPLE),
)
async def get_function(call: Call[NoBody, NoQuery], ports: Ports) -> Answer:
    """Return one function with its body."""
    address = address_of(Kind.FUNCTION, call.params["name"], field="name")
    catalog, schema, function = await browse.get(ports, call.caller, address)
    return Answer.json(function_info(function, catalog.name, schema.name))


@routes.delete(
    "/functions/{name}",
    operation="deleteFunction",
    summary="Delete a function.",
    answer=Nothing,
    errors=(InvalidInput, *_MISSING),
    example=Example(path=_PLUS_ONE, answer={}),
)
async def delete_function(call: Call[NoBody, NoQuery], ports: Ports) -> Answer:
    """Delete a function."""
    address = address_of(Kind.FUNCTION, call.params["name"], field="name")
    await objects.drop(ports, errand_of(call, ports), address)
    return Answer.json(NOTHING)
