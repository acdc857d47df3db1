"""Functions that Iceberg can describe. They are created through the Unity API."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from moorage.api.iceberg.api import Paging, iceberg, namespace_of, relation_of
from moorage.api.iceberg.bodies import EXAMPLE_SPACE, Kebab, Levels
from moorage.core.errors import CatalogNotFound, InvalidInput, NamespaceNotFound, SecurableNotFound
from moorage.core.securables import Kind
from moorage.http import Answer, Call, Example, NoBody, NoQuery
from moorage.usecases.catalog.paging import page_size
from moorage.usecases.iceberg import functions as iceberg_functions
from moorage.usecases.ports import Ports

routes = iceberg.section(tags=("functions",))

FunctionMetadata = Annotated[
    dict[str, Any], Meta(description="Function metadata, as the Iceberg UDF specification defines it.")
]


class IcebergFunctions(Kebab, frozen=True, kw_only=True):
    """One page of functions. Without a token it is the last."""

    identifiers: tuple[Levels, ...]
    next_page_token: str | None = None


class LoadFunctionResult(Kebab, frozen=True, kw_only=True):
    """A function with all its definitions."""

    metadata: FunctionMetadata


_EXAMPLE: dict[str, Any] = {
    "function-uuid": "01939c1e-5a6f-7cc1-9d3e-8f5a2b7c4d74",
    "format-version": 1,
    "definitions": [
        {
            "definition-id": "double",
            "specific-name": "to_celsius",
            "parameters": [{"name": "f", "type": "double"}],
            "return-type": "double",
            "versions": [
                {
                    "version-id": 1,
                    "representations": [{"type": "sql", "dialect": "spark", "sql": "(f - 32) / 1.8"}],
                    "deterministic": True,
                    "on-null-input": "return-null",
                    "timestamp-ms": 1794737732278,
                }
            ],
            "current-version-id": 1,
            "function-type": "udf",
        }
    ],
    "definition-log": [
        {"timestamp-ms": 1794737732278, "definition-versions": [{"definition-id": "double", "version-id": 1}]}
    ],
}


@routes.get(
    "/v1/{prefix}/namespaces/{namespace}/functions",
    operation="listFunctions",
    summary="List functions.",
    query=Paging,
    answer=IcebergFunctions,
    errors=(InvalidInput, CatalogNotFound, NamespaceNotFound),
    example=Example(path=EXAMPLE_SPACE, answer={"identifiers": [["sales", "to_celsius"]], "next-page-token": None}),
)
async def list_functions(call: Call[NoBody, Paging], ports: Ports) -> Answer:
    """List the functions of a namespace that are written in SQL."""
    found = await iceberg_functions.list_functions(
        ports,
        call.caller,
        namespace_of(call),
        token=call.query.page_token,
        limit=page_size(call.query.page_size, field="pageSize"),
    )
    levels = tuple(each.name for each in found.above[1:])
    names = tuple((*levels, item.name) for item in found.items)
    return Answer.json(IcebergFunctions(identifiers=names, next_page_token=found.next_token))


@routes.get(
    "/v1/{prefix}/namespaces/{namespace}/functions/{function}",
    operation="loadFunction",
    summary="Load a function.",
    answer=LoadFunctionResult,
    errors=(InvalidInput, CatalogNotFound, NamespaceNotFound, SecurableNotFound),
    example=Example(path={**EXAMPLE_SPACE, "function": "to_celsius"}, answer={"metadata": _EXAMPLE}),
)
async def load_function(call: Call[NoBody, NoQuery], ports: Ports) -> Answer:
    """Load a function with its definitions. A function that is not written in SQL is not found."""
    found = await iceberg_functions.load_function(ports, call.caller, relation_of(call, Kind.FUNCTION))
    return Answer.json(LoadFunctionResult(metadata=found))
