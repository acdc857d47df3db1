"""The versions of registered models."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from moorage.api.errands import errand_of
from moorage.api.unity.api import unity
from moorage.api.unity.names import address_in, address_of
from moorage.api.unity.objects import answer_with_info
from moorage.api.unity.shapes import (
    EXAMPLE_ID,
    NOTHING,
    Millis,
    Nothing,
    Paging,
    Text,
    to_wire_location,
)
from moorage.core.errors import CatalogNotFound, InvalidInput, NamespaceNotFound, SecurableNotFound
from moorage.core.names import name_key
from moorage.core.revisions import Revision
from moorage.core.securables import Doc, Kind, Securable
from moorage.http import Answer, Call, Example, NoBody, NoQuery
from moorage.usecases.catalog import models
from moorage.usecases.catalog.addresses import Address
from moorage.usecases.catalog.models import (
    STATUS,
    get_version,
    list_versions,
)
from moorage.usecases.ports import Ports

routes = unity.section(tags=("models",))

SOURCE, RUN_ID = "source", "run_id"
"""Keys in a version's details."""

VersionNumber = Annotated[
    int, Meta(ge=1, le=2**31 - 1, description="Starts at 1 and increases. A number is never used again.")
]


class CreateModelVersion(msgspec.Struct, frozen=True, kw_only=True):
    """The version to register."""

    model_name: str
    catalog_name: str
    schema_name: str
    source: Annotated[str, Meta(min_length=1, description="The origin of the artifacts.")]
    run_id: Annotated[str | None, Meta(description="The run that created the artifacts.")] = None
    comment: Text | None = None


class UpdateModelVersion(msgspec.Struct, frozen=True, kw_only=True):
    """Changes to a version. A field that is absent or null stays unchanged."""

    comment: Text | None = None


class FinalizeModelVersion(msgspec.Struct, frozen=True, kw_only=True):
    """The version that is complete. It must be the version in the path."""

    full_name: str | None = None
    version: VersionNumber | None = None


class ModelVersionInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A version of a model."""

    model_name: str
    catalog_name: str
    schema_name: str
    version: VersionNumber
    source: str
    run_id: str | None
    status: Literal["PENDING_REGISTRATION", "READY"]
    storage_location: str | None
    comment: str | None
    created_at: Millis
    created_by: str
    updated_at: Millis
    updated_by: str
    id: str


class ListModelVersionsResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A page of versions. Without a token it is the last page."""

    model_versions: list[ModelVersionInfo]
    next_page_token: str | None


def version_info(securable: Securable, catalog_name: str, schema_name: str, model_name: str) -> ModelVersionInfo:
    doc = securable.doc
    return ModelVersionInfo(
        model_name=model_name,
        catalog_name=catalog_name,
        schema_name=schema_name,
        version=int(securable.name),
        source=doc.details[SOURCE],
        run_id=doc.details.get(RUN_ID),
        status=doc.details[STATUS],
        storage_location=to_wire_location(doc.location),
        comment=doc.comment,
        created_at=securable.created_at_ms,
        created_by=securable.created_by,
        updated_at=securable.updated_at_ms,
        updated_by=securable.updated_by,
        id=securable.id,
    )


_EXAMPLE: dict[str, Any] = {
    "model_name": "churn",
    "catalog_name": "sample",
    "schema_name": "sales",
    "version": 1,
    "source": "file:///runs/7/model",
    "run_id": "7",
    "status": "PENDING_REGISTRATION",
    "storage_location": f"file:///data/managed/models/{EXAMPLE_ID}/versions/01939c1e-5a6f-7cc1-9d3e-8f5a2b7c4d22",
    "comment": None,
    "created_at": 1794737732278,
    "created_by": "local",
    "updated_at": 1794737732278,
    "updated_by": "local",
    "id": "01939c1e-5a6f-7cc1-9d3e-8f5a2b7c4d22",
}
_FIRST = {"full_name": "sample.sales.churn", "version": "1"}
_MISSING = (CatalogNotFound, NamespaceNotFound, SecurableNotFound)


def _model_and_number(call: Call[Any, Any]) -> tuple[Address, int]:
    text = call.params["version"]
    if not (text.isascii() and text.isdigit() and 0 < int(text[:11]) < 2**31):
        raise InvalidInput(f"version {text!r} is not a version number; numbers start at 1", field="version")
    return address_of(Kind.MODEL, call.params["full_name"]), int(text)


@routes.post(
    "/models/versions",
    operation="createModelVersion",
    summary="Register a version of a model.",
    body=CreateModelVersion,
    answer=ModelVersionInfo,
    errors=(InvalidInput, *_MISSING),
    example=Example(
        body={
            "model_name": "churn",
            "catalog_name": "sample",
            "schema_name": "sales",
            "source": "file:///runs/7/model",
            "run_id": "7",
        },
        answer=_EXAMPLE,
    ),
)
async def create_model_version(call: Call[CreateModelVersion, NoQuery], ports: Ports) -> Answer:
    """Register the next version of a model. Write its files to `storage_location`, then finalize it."""
    body = call.body
    address = address_in(Kind.MODEL, body.catalog_name, body.schema_name, body.model_name)
    origin = {SOURCE: body.source, **({RUN_ID: body.run_id} if body.run_id is not None else {})}
    doc = Doc(comment=body.comment, details=origin)
    return await answer_with_info(
        ports, await models.create_version(ports, errand_of(call, ports), address, doc), version_info
    )


@routes.get(
    "/models/{full_name}/versions",
    operation="listModelVersions",
    summary="List the versions of a model.",
    query=Paging,
    answer=ListModelVersionsResponse,
    errors=(InvalidInput, *_MISSING),
    example=Example(
        path={"full_name": "sample.sales.churn"}, answer={"model_versions": [_EXAMPLE], "next_page_token": None}
    ),
)
async def list_model_versions(call: Call[NoBody, Paging], ports: Ports) -> Answer:
    """List the versions of a model, the oldest first."""
    query = call.query
    address = address_of(Kind.MODEL, call.params["full_name"])
    page = await list_versions(ports, call.caller, address, token=query.page_token, limit=query.limit)
    found = [version_info(item, *(part.name for part in page.above)) for item in page.items]
    return Answer.json(ListModelVersionsResponse(model_versions=found, next_page_token=page.next_token))


@routes.get(
    "/models/{full_name}/versions/{version}",
    operation="getModelVersion",
    summary="Get a version of a model.",
    answer=ModelVersionInfo,
    errors=(InvalidInput, *_MISSING),
    example=Example(path=_FIRST, answer=_EXAMPLE),
)
async def get_model_version(call: Call[NoBody, NoQuery], ports: Ports) -> Answer:
    """Return one version."""
    *above, version = await get_version(ports, call.caller, *_model_and_number(call))
    return Answer.json(version_info(version, *(part.name for part in above)))


@routes.patch(
    "/models/{full_name}/versions/{version}",
    operation="updateModelVersion",
    summary="Update a version of a model.",
    body=UpdateModelVersion,
    answer=ModelVersionInfo,
    errors=(InvalidInput, *_MISSING),
    example=Example(path=_FIRST, body={"comment": "Better."}, answer=_EXAMPLE | {"comment": "Better."}),
)
async def update_model_version(call: Call[UpdateModelVersion, NoQuery], ports: Ports) -> Answer:
    """Change the comment."""
    address, number = _model_and_number(call)
    revision = Revision(comment=call.body.comment)
    after = await models.revise_version(ports, errand_of(call, ports), address, number, revision)
    return await answer_with_info(ports, after, version_info)


@routes.patch(
    "/models/{full_name}/versions/{version}/finalize",
    operation="finalizeModelVersion",
    summary="Finalize a version of a model.",
    body=FinalizeModelVersion,
    answer=ModelVersionInfo,
    errors=(InvalidInput, *_MISSING),
    example=Example(
        path=_FIRST, body={"full_name": "sample.sales.churn", "version": 1}, answer=_EXAMPLE | {"status": "READY"}
    ),
)
async def finalize_model_version(call: Call[FinalizeModelVersion, NoQuery], ports: Ports) -> Answer:
    """Mark a version as ready after all its files were written."""
    address, number = _model_and_number(call)
    if call.body.version not in (None, number):
        raise InvalidInput(f"version {call.body.version} differs from the version in the path", field="version")
    if call.body.full_name is not None and name_key(call.body.full_name) != name_key(str(address)):
        raise InvalidInput("full_name differs from the name in the path", field="full_name")
    return await answer_with_info(
        ports, await models.finalize_version(ports, errand_of(call, ports), address, number), version_info
    )


@routes.delete(
    "/models/{full_name}/versions/{version}",
    operation="deleteModelVersion",
    summary="Delete a version of a model.",
    answer=Nothing,
    errors=(InvalidInput, *_MISSING),
    example=Example(path=_FIRST, answer={}),
)
async def delete_model_version(call: Call[NoBody, NoQuery], ports: Ports) -> Answer:
    """Delete a version. Its number is never used again."""
    address, number = _model_and_number(call)
    await models.drop_version(ports, errand_of(call, ports), address, number)
    return Answer.json(NOTHING)
