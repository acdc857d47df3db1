"""Dropped objects that can still be restored."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from moorage.api.console.api import Paging, console, levels
from moorage.api.console.bodies import EXAMPLE_CATALOG, ObjectInfo, ObjectList, Undrop, object_info
from moorage.api.errands import errand_of
from moorage.core.errors import (
    AlreadyPurged,
    CatalogNotFound,
    InvalidInput,
    KeyReused,
    NamespaceNotFound,
    NameTaken,
    SecurableNotFound,
)
from moorage.core.securables import Kind
from moorage.http import Answer, Call, Example, NoBody, NoQuery
from moorage.usecases.catalog import addresses, browse, objects
from moorage.usecases.catalog.paging import page_size
from moorage.usecases.ports import Ports

routes = console.section(tags=("recovery",))


class DroppedQuery(Paging, frozen=True, kw_only=True):
    """Which dropped objects to list: their kind and their parent."""

    kind: Annotated[Literal["catalog", "namespace", "table", "view"], Meta(description="The object kind.")] = "catalog"
    catalog: Annotated[str, Meta(description="The parent catalog; required unless `kind` is catalog.")] = ""
    namespace: Annotated[str, Meta(description="The parent namespace, levels joined by %1F.")] = ""


@routes.get(
    "/dropped",
    operation="listDropped",
    summary="List dropped objects.",
    query=DroppedQuery,
    answer=ObjectList,
    errors=(InvalidInput, CatalogNotFound, NamespaceNotFound),
    example=Example(
        query={"kind": "catalog"},
        answer={
            "items": [EXAMPLE_CATALOG | {"dropped_at_ms": 1794737732999, "purge_at_ms": 1795342532999}],
            "next_page_token": None,
        },
    ),
)
async def list_dropped(call: Call[NoBody, DroppedQuery], ports: Ports) -> Answer:
    """List dropped objects of one kind and one parent, the most recently dropped first, page by page."""
    query = call.query
    if (query.kind == "catalog") == bool(query.catalog):
        raise InvalidInput(
            "catalog is required unless the kind is catalog, and then it must be absent", field="catalog"
        )
    parent = None
    if query.catalog and query.namespace:
        parent = addresses.namespace(query.catalog, *levels(query.namespace))
    elif query.catalog:
        parent = addresses.catalog(query.catalog)
    limit = page_size(query.max_results)
    page = await browse.list_dropped(ports, call.caller, parent, Kind(query.kind), token=query.page_token, limit=limit)
    return Answer.json(ObjectList(items=tuple(map(object_info, page.items)), next_page_token=page.next_token))


@routes.post(
    "/undrop",
    operation="undrop",
    summary="Restore a dropped object.",
    body=Undrop,
    answer=ObjectInfo,
    errors=(InvalidInput, SecurableNotFound, CatalogNotFound, NamespaceNotFound, NameTaken, AlreadyPurged, KeyReused),
    example=Example(body={"kind": "catalog", "id": EXAMPLE_CATALOG["id"]}, answer=EXAMPLE_CATALOG),
)
async def undrop(call: Call[Undrop, NoQuery], ports: Ports) -> Answer:
    """Restore a dropped object with everything that was in it, under its own name or a new one."""
    body = call.body
    after = await objects.undrop(ports, errand_of(call, ports), body.id, Kind(body.kind), name=body.new_name)
    return Answer.json(object_info(after))
