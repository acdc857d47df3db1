"""Registered models."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from moorage.api.errands import errand_of
from moorage.api.unity.api import unity
from moorage.api.unity.names import address_of, new_address
from moorage.api.unity.objects import ObjectUpdate, answer_with_info, page_of_schema
from moorage.api.unity.shapes import (
    EXAMPLE_ID,
    EXAMPLE_STAMPS,
    NOTHING,
    ForceQuery,
    Name,
    Nothing,
    Paging,
    SchemaPaging,
    Stamped,
    Text,
    only_addressable,
    stamps,
    to_wire_location,
)
from moorage.core.errors import (
    CatalogNotFound,
    InvalidInput,
    NamespaceNotFound,
    NameTaken,
    NotEmpty,
    SecurableNotFound,
)
from moorage.core.securables import Doc, Kind, Securable, Shelf
from moorage.http import Answer, Call, Example, NoBody, NoQuery
from moorage.usecases.catalog import browse, models
from moorage.usecases.catalog.everywhere import page_everywhere
from moorage.usecases.catalog.revisions import revise
from moorage.usecases.ports import Ports

routes = unity.section(tags=("models",))


class CreateRegisteredModel(msgspec.Struct, frozen=True, kw_only=True):
    """The model to register."""

    name: Name
    catalog_name: str
    schema_name: str
    comment: Text | None = None


class ModelPaging(Paging, frozen=True, kw_only=True):
    """The page, and optionally the schema. Without a schema, the models of all schemas are listed."""

    catalog_name: Annotated[str, Meta(description="The catalog of the schema. Required with `schema_name`.")] = ""
    schema_name: Annotated[str, Meta(description="The schema of the models. Required with `catalog_name`.")] = ""


class UpdateRegisteredModel(ObjectUpdate, frozen=True, kw_only=True):
    """Changes to a model. A field that is absent or null stays unchanged."""


class RegisteredModelInfo(Stamped, frozen=True, kw_only=True):
    """A registered model."""

    name: str
    catalog_name: str
    schema_name: str
    storage_location: str | None
    full_name: str
    comment: str | None
    id: str


class ListRegisteredModelsResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A page of models. Without a token it is the last page."""

    registered_models: list[RegisteredModelInfo]
    next_page_token: str | None


def model_info(securable: Securable, catalog_name: str, schema_name: str) -> RegisteredModelInfo:
    return RegisteredModelInfo(
        name=securable.name,
        catalog_name=catalog_name,
        schema_name=schema_name,
        storage_location=to_wire_location(securable.doc.location),
        full_name=f"{catalog_name}.{schema_name}.{securable.name}",
        comment=securable.doc.comment,
        id=securable.id,
        **stamps(securable),
    )


_EXAMPLE: dict[str, Any] = {
    "name": "churn",
    "catalog_name": "sample",
    "schema_name": "sales",
    "storage_location": f"file:///data/managed/models/{EXAMPLE_ID}",
    "full_name": "sample.sales.churn",
    "comment": None,
    "id": EXAMPLE_ID,
    **EXAMPLE_STAMPS,
}
_CHURN = {"full_name": "sample.sales.churn"}
_MISSING = (CatalogNotFound, NamespaceNotFound, SecurableNotFound)


@routes.post(
    "/models",
    operation="createRegisteredModel",
    summary="Register a model.",
    body=CreateRegisteredModel,
    answer=RegisteredModelInfo,
    errors=(InvalidInput, CatalogNotFound, NamespaceNotFound, NameTaken),
    example=Example(body={"name": "churn", "catalog_name": "sample", "schema_name": "sales"}, answer=_EXAMPLE),
)
async def create_registered_model(call: Call[CreateRegisteredModel, NoQuery], ports: Ports) -> Answer:
    """Register a model without versions."""
    body = call.body
    address = new_address(Kind.MODEL, body.catalog_name, body.schema_name, body.name)
    created = await models.create_model(ports, errand_of(call, ports), address, Doc(comment=body.comment))
    return await answer_with_info(ports, created, model_info)


@routes.get(
    "/models",
    operation="listRegisteredModels",
    summary="List models.",
    query=ModelPaging,
    answer=ListRegisteredModelsResponse,
    errors=(InvalidInput, CatalogNotFound, NamespaceNotFound),
    example=Example(
        query={"catalog_name": "sample", "schema_name": "sales"},
        answer={"registered_models": [_EXAMPLE], "next_page_token": None},
    ),
)
async def list_registered_models(call: Call[NoBody, ModelPaging], ports: Ports) -> Answer:
    """List the models of a schema, or without a schema those of all schemas, ordered by name."""
    query = call.query
    if bool(query.catalog_name) != bool(query.schema_name):
        missing = "schema_name" if query.catalog_name else "catalog_name"
        raise InvalidInput(
            f"the query parameter {missing} is required too; leave out both to list the models of all schemas",
            field=missing,
        )
    if not query.catalog_name:
        return await _list_all_models(call, ports)
    schema = SchemaPaging(
        catalog_name=query.catalog_name,
        schema_name=query.schema_name,
        max_results=query.max_results,
        page_token=query.page_token,
    )
    page = await page_of_schema(ports, call.caller, schema, Shelf.MODEL)
    found = [model_info(item, *(part.name for part in page.above)) for item in only_addressable(page.items)]
    return Answer.json(ListRegisteredModelsResponse(registered_models=found, next_page_token=page.next_token))


async def _list_all_models(call: Call[NoBody, ModelPaging], ports: Ports) -> Answer:
    query = call.query
    page = await page_everywhere(ports, call.caller, Shelf.MODEL, token=query.page_token, limit=query.limit)
    found = [
        model_info(model, catalog.name, schema.name)
        for catalog, schema, model in page.chains
        if len(only_addressable((catalog, schema, model))) == 3
    ]
    return Answer.json(ListRegisteredModelsResponse(registered_models=found, next_page_token=page.next_token))


@routes.get(
    "/models/{full_name}",
    operation="getRegisteredModel",
    summary="Get a model.",
    answer=RegisteredModelInfo,
    errors=(InvalidInput, *_MISSING),
    example=Example(path=_CHURN, answer=_EXAMPLE),
)
async def get_registered_model(call: Call[NoBody, NoQuery], ports: Ports) -> Answer:
    """Return one model."""
    address = address_of(Kind.MODEL, call.params["full_name"])
    catalog, schema, model = await browse.get(ports, call.caller, address)
    return Answer.json(model_info(model, catalog.name, schema.name))


@routes.patch(
    "/models/{full_name}",
    operation="updateRegisteredModel",
    summary="Update a model.",
    body=UpdateRegisteredModel,
    answer=RegisteredModelInfo,
    errors=(InvalidInput, NameTaken, *_MISSING),
    example=Example(path=_CHURN, body={"comment": "Who leaves."}, answer=_EXAMPLE | {"comment": "Who leaves."}),
)
async def update_registered_model(call: Call[UpdateRegisteredModel, NoQuery], ports: Ports) -> Answer:
    """Change the comment, the owner or the name. Files stay where they are."""
    address = address_of(Kind.MODEL, call.params["full_name"])
    after = await revise(ports, errand_of(call, ports), address, call.body.revision())
    return await answer_with_info(ports, after, model_info)


@routes.delete(
    "/models/{full_name}",
    operation="deleteRegisteredModel",
    summary="Delete a model.",
    query=ForceQuery,
    answer=Nothing,
    errors=(InvalidInput, NotEmpty, *_MISSING),
    example=Example(path=_CHURN, query={"force": True}, answer={}),
)
async def delete_registered_model(call: Call[NoBody, ForceQuery], ports: Ports) -> Answer:
    """Delete a model without versions, or with `force` a model and all its versions."""
    address = address_of(Kind.MODEL, call.params["full_name"])
    await models.drop_model(ports, errand_of(call, ports), address, cascade=call.query.force)
    return Answer.json(NOTHING)
