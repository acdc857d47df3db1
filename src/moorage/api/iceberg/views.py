"""Views: create, load, list, register, rename, replace and drop."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from moorage.api.iceberg.api import Paging, iceberg, keyed_errand, namespace_of, relation_of
from moorage.api.iceberg.bodies import (
    EXAMPLE_ID,
    EXAMPLE_SCHEMA,
    EXAMPLE_SPACE,
    CommitViewRequest,
    Kebab,
    ListTablesResponse,
    Properties,
    RenameTableRequest,
)
from moorage.api.iceberg.loaded import to_answer, to_answer_if_changed
from moorage.api.iceberg.tables import list_in_namespace, relation_in, rename
from moorage.core.errors import (
    CatalogNotFound,
    InvalidInput,
    KeyReused,
    NamespaceNotFound,
    NameTaken,
    PlaceTaken,
    RequirementFailed,
    VersionNotFound,
    ViewNotFound,
)
from moorage.core.names import require_name
from moorage.core.securables import Kind
from moorage.formats.iceberg.changes import Schema, to_documents
from moorage.http import Answer, Call, Example, NoBody, NoQuery
from moorage.usecases.catalog.addresses import Address
from moorage.usecases.iceberg import relations as iceberg_relations
from moorage.usecases.iceberg import views as iceberg_views
from moorage.usecases.ports import Ports

routes = iceberg.section(tags=("views",))

ViewMetadata = Annotated[
    dict[str, Any], Meta(description="View metadata, as the Iceberg view specification defines it.")
]
ViewVersion = Annotated[
    dict[str, Any], Meta(description="The SQL of a view in one or more dialects, and how its names are resolved.")
]

MISSING = (CatalogNotFound, NamespaceNotFound, ViewNotFound)
EXAMPLE_VIEW = {**EXAMPLE_SPACE, "view": "by_city"}
EXAMPLE_VERSION: dict[str, Any] = {
    "version-id": 1,
    "timestamp-ms": 1794737732278,
    "schema-id": 0,
    "summary": {"engine-name": "spark"},
    "representations": [{"type": "sql", "sql": "select id, city from shipments", "dialect": "spark"}],
    "default-namespace": ["sales"],
}
_EXAMPLE_LOCATION = f"file:///data/managed/views/{EXAMPLE_ID}"
EXAMPLE_VIEW_METADATA: dict[str, Any] = {
    "view-uuid": EXAMPLE_ID,
    "format-version": 1,
    "location": _EXAMPLE_LOCATION,
    "schemas": [{"type": "struct", "schema-id": 0, "fields": EXAMPLE_SCHEMA["fields"]}],
    "versions": [EXAMPLE_VERSION],
    "version-log": [{"timestamp-ms": 1794737732278, "version-id": 1}],
    "properties": {},
    "current-version-id": 1,
}
_LOADED: dict[str, Any] = {
    "metadata-location": f"{_EXAMPLE_LOCATION}/metadata/00000-01939c1e-5a6f-7cc1-9d3e-8f5a2b7c4d79.metadata.json",
    "metadata": EXAMPLE_VIEW_METADATA,
}


class CreateViewRequest(Kebab, frozen=True, kw_only=True):
    """A view to create."""

    name: str
    schema: Schema
    view_version: ViewVersion
    properties: Properties | None = None
    location: str | None = None


class RegisterViewRequest(Kebab, frozen=True, kw_only=True):
    """The name for an existing view, and its metadata file."""

    name: str
    metadata_location: str


class LoadViewResult(Kebab, frozen=True, kw_only=True):
    """A view, and the location of its metadata file."""

    metadata_location: str
    metadata: ViewMetadata
    config: Properties | None = None


@routes.get(
    "/v1/{prefix}/namespaces/{namespace}/views",
    operation="listViews",
    summary="List views.",
    query=Paging,
    answer=ListTablesResponse,
    errors=(InvalidInput, CatalogNotFound, NamespaceNotFound),
    example=Example(
        path=EXAMPLE_SPACE,
        answer={"identifiers": [{"namespace": ["sales"], "name": "by_city"}], "next-page-token": None},
    ),
)
async def list_views(call: Call[NoBody, Paging], ports: Ports) -> Answer:
    """List the Iceberg views of a namespace."""
    return await list_in_namespace(call, ports, Kind.VIEW)


@routes.post(
    "/v1/{prefix}/namespaces/{namespace}/views",
    operation="createView",
    summary="Create a view.",
    body=CreateViewRequest,
    answer=LoadViewResult,
    errors=(InvalidInput, NameTaken, PlaceTaken, KeyReused, CatalogNotFound, NamespaceNotFound),
    example=Example(
        path=EXAMPLE_SPACE,
        body={"name": "by_town", "schema": EXAMPLE_SCHEMA, "view-version": EXAMPLE_VERSION, "properties": {}},
        answer=_LOADED,
    ),
)
async def create_view(call: Call[CreateViewRequest, NoQuery], ports: Ports) -> Answer:
    """Create a view with its first version."""
    body = call.body
    new = iceberg_views.NewView(
        address=Address(Kind.VIEW, (*namespace_of(call).path, require_name(body.name))),
        schema=body.schema,
        version=body.view_version,
        location=body.location,
        properties=body.properties or {},
    )
    return to_answer(await iceberg_views.create_view(ports, keyed_errand(call, ports), new))


@routes.get(
    "/v1/{prefix}/namespaces/{namespace}/views/{view}",
    operation="loadView",
    summary="Load a view.",
    answer=LoadViewResult,
    errors=(InvalidInput, VersionNotFound, *MISSING),
    also={304: "The view has not changed since the ETag in If-None-Match."},
    example=Example(path=EXAMPLE_VIEW, answer=_LOADED),
)
async def load_view(call: Call[NoBody, NoQuery], ports: Ports) -> Answer:
    """Load the metadata of a view, and the location of its metadata file."""
    loaded = await iceberg_relations.load(ports, call.caller, relation_of(call, Kind.VIEW))
    return to_answer_if_changed(loaded, call.header("if-none-match"))


@routes.head(
    "/v1/{prefix}/namespaces/{namespace}/views/{view}",
    operation="viewExists",
    summary="Check whether a view exists.",
    status=204,
    errors=(InvalidInput, *MISSING),
    example=Example(path=EXAMPLE_VIEW),
)
async def view_exists(call: Call[NoBody, NoQuery], ports: Ports) -> Answer:
    """Return 204 if the view exists, 404 if it does not."""
    await iceberg_relations.require_relation(ports, call.caller, relation_of(call, Kind.VIEW))
    return Answer.empty()


@routes.post(
    "/v1/{prefix}/namespaces/{namespace}/views/{view}",
    operation="replaceView",
    summary="Replace a view.",
    body=CommitViewRequest,
    answer=LoadViewResult,
    errors=(InvalidInput, RequirementFailed, PlaceTaken, KeyReused, *MISSING),
    example=Example(
        path=EXAMPLE_VIEW,
        body={"updates": [{"action": "set-properties", "updates": {"owner": "ann"}}]},
        answer=_LOADED,
    ),
)
async def replace_view(call: Call[CommitViewRequest, NoQuery], ports: Ports) -> Answer:
    """Apply the updates if all requirements hold."""
    body, address = call.body, relation_of(call, Kind.VIEW)
    if body.identifier is not None and relation_in(call, body.identifier, "identifier", Kind.VIEW) != address:
        raise InvalidInput("identifier names another view than the path", field="identifier")
    replaced = await iceberg_views.replace_view(
        ports,
        keyed_errand(call, ports),
        address,
        to_documents(body.requirements or ()),
        to_documents(body.updates or ()),
    )
    return to_answer(replaced)


@routes.delete(
    "/v1/{prefix}/namespaces/{namespace}/views/{view}",
    operation="dropView",
    summary="Drop a view.",
    status=204,
    errors=(InvalidInput, KeyReused, *MISSING),
    example=Example(path=EXAMPLE_VIEW),
)
async def drop_view(call: Call[NoBody, NoQuery], ports: Ports) -> Answer:
    """Drop a view. Its metadata files are not deleted."""
    address = relation_of(call, Kind.VIEW)
    await iceberg_views.drop_view(ports, keyed_errand(call, ports), address)
    return Answer.empty()


@routes.post(
    "/v1/{prefix}/views/rename",
    operation="renameView",
    summary="Rename a view.",
    body=RenameTableRequest,
    status=204,
    errors=(InvalidInput, NameTaken, KeyReused, *MISSING),
    example=Example(
        path={"prefix": "sample"},
        body={
            "source": {"namespace": ["sales"], "name": "by_city"},
            "destination": {"namespace": ["sales", "eu"], "name": "by_city"},
        },
    ),
)
async def rename_view(call: Call[RenameTableRequest, NoQuery], ports: Ports) -> Answer:
    """Rename a view, or move it to another namespace."""
    return await rename(call, ports, Kind.VIEW)


@routes.post(
    "/v1/{prefix}/namespaces/{namespace}/register-view",
    operation="registerView",
    summary="Register a view by its metadata file.",
    body=RegisterViewRequest,
    answer=LoadViewResult,
    errors=(InvalidInput, NameTaken, PlaceTaken, KeyReused, CatalogNotFound, NamespaceNotFound),
    example=Example(
        path=EXAMPLE_SPACE,
        body={"name": "by_city", "metadata-location": _LOADED["metadata-location"]},
        answer=_LOADED,
    ),
)
async def register_view(call: Call[RegisterViewRequest, NoQuery], ports: Ports) -> Answer:
    """Register a view whose metadata file exists already."""
    address = Address(Kind.VIEW, (*namespace_of(call).path, require_name(call.body.name)))
    registered = await iceberg_views.register_view(
        ports, keyed_errand(call, ports), address, call.body.metadata_location
    )
    return to_answer(registered)
