"""The configuration of a warehouse, which a client requests first: its prefix, and the endpoints of this server."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

import msgspec
from msgspec import Meta

from moorage.api.iceberg.api import LEVEL_SEPARATOR, iceberg
from moorage.api.iceberg.bodies import Properties
from moorage.core.errors import CatalogNotFound, InvalidInput
from moorage.core.securables import Shelf
from moorage.http import Answer, Call, Example, NoBody
from moorage.usecases.catalog import browse
from moorage.usecases.catalog.addresses import catalog
from moorage.usecases.catalog.paging import MAX_PAGE_SIZE
from moorage.usecases.ports import Ports


class CatalogConfig(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """Settings for the client, and the endpoints that it may call."""

    defaults: Properties
    overrides: Properties
    endpoints: tuple[str, ...]
    idempotency_key_lifetime: str


class ConfigQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The warehouse to use."""

    warehouse: Annotated[
        str | None, Meta(description="The name of a catalog. Without it, the server uses the oldest catalog.")
    ] = None


@iceberg.get(
    "/v1/config",
    operation="getConfig",
    summary="Get the configuration of a warehouse.",
    tags=("configuration",),
    query=ConfigQuery,
    answer=CatalogConfig,
    errors=(InvalidInput, CatalogNotFound),
    example=Example(
        query={"warehouse": "sample"},
        answer={
            "defaults": {},
            "overrides": {"prefix": "sample", "namespace-separator": "%1F"},
            "endpoints": ["GET /v1/{prefix}/namespaces"],
            "idempotency-key-lifetime": "PT86400S",
        },
    ),
)
async def get_config(call: Call[NoBody, ConfigQuery], ports: Ports) -> Answer:
    """Return the prefix of the warehouse, and every endpoint that this server offers."""
    name = await _warehouse(call, ports)
    # Clients insert the prefix into paths without escaping it.
    overrides = {"prefix": quote(name, safe=""), "namespace-separator": quote(LEVEL_SEPARATOR)}
    return Answer.json(
        CatalogConfig(
            defaults={},
            overrides=overrides,
            endpoints=_endpoints(await _refused_operations(ports)),
            idempotency_key_lifetime=f"PT{ports.key_lifetime_ms // 1000}S",
        )
    )


async def _warehouse(call: Call[NoBody, ConfigQuery], ports: Ports) -> str:
    if call.query.warehouse:
        chain = await browse.get(ports, call.caller, catalog(call.query.warehouse, field="warehouse"))
        return chain[-1].name
    pages = browse.pages(ports, call.caller, None, Shelf.CATALOG, token=None, limit=MAX_PAGE_SIZE)
    catalogs = [item async for page in pages for item in page.items]
    if not catalogs:
        raise InvalidInput(
            "there is no catalog yet; create one, and set the client's warehouse to its name", field="warehouse"
        )
    return min(catalogs, key=lambda each: (each.created_at_ms, each.id)).name


async def _refused_operations(ports: Ports) -> set[str]:
    """The operations that return only errors on this server. Files on local disk need no credentials."""
    refused = set() if await ports.stores.sign() else {"signRequest"}
    vends = not await ports.stores.locations() or await ports.stores.vend()
    return refused if vends else {*refused, "loadCredentials"}


def _endpoints(refused: set[str]) -> tuple[str, ...]:
    """The endpoints, taken from the routes so that the list cannot differ from them."""
    start = len(iceberg.prefix)
    offered = (route for route in iceberg.routes if route.operation not in refused)
    paths = ((route.verb, route.pattern.path[start:]) for route in offered)
    return tuple(f"{verb} {path}" for verb, path in paths if "{prefix}" in path)
