"""The supported version and operations of this API."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from moorage.api.delta.api import delta
from moorage.core.errors import CatalogNotFound, InvalidInput
from moorage.http import Answer, Call, Example, NoBody
from moorage.usecases.catalog import addresses, browse
from moorage.usecases.ports import Ports

VERSION = "1.0"
_ROOT = delta.prefix.removesuffix("/v1")


class ConfigQuery(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """The catalog, and the versions that the client supports."""

    catalog: Annotated[str, Meta(description="The catalog that the client will use.")]
    protocol_versions: Annotated[
        str,
        Meta(description="The highest supported minor version of each major version, separated by commas: 1.1,2.3."),
    ]


class DeltaCatalogConfig(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """The operations of the newest version that client and server support."""

    endpoints: list[str]
    protocol_version: str


@delta.get(
    "/config",
    operation="getDeltaConfig",
    summary="Agree on a version of this API.",
    tags=("configuration",),
    query=ConfigQuery,
    answer=DeltaCatalogConfig,
    errors=(InvalidInput, CatalogNotFound),
    example=Example(
        query={"catalog": "sample", "protocol-versions": "1.0"},
        answer={
            "endpoints": ["GET /v1/catalogs/{catalog}/schemas/{schema}/tables/{table}"],
            "protocol-version": VERSION,
        },
    ),
)
async def get_config(call: Call[NoBody, ConfigQuery], ports: Ports) -> Answer:
    """Return the available operations, and the version of this API that the server uses."""
    _require_first_major(call.query.protocol_versions)
    await browse.get(ports, call.caller, addresses.catalog(call.query.catalog))
    endpoints = [f"{route.verb} {route.pattern.path.removeprefix(_ROOT)}" for route in delta.routes]
    return Answer.json(DeltaCatalogConfig(endpoints=endpoints, protocol_version=VERSION))


def _require_first_major(versions: str) -> None:
    """Require that the client supports a version 1.x. Every such client supports 1.0, the only version so far."""
    for version in versions.split(","):
        major, dot, minor = version.strip().partition(".")
        if not (major.isascii() and major.isdigit() and (not dot or (minor.isascii() and minor.isdigit()))):
            raise InvalidInput(
                f"protocol-versions: {version!r} is not a version such as {VERSION}", field="protocol-versions"
            )
        if int(major) == 1:
            return
    raise InvalidInput(
        f"protocol-versions: this server supports {VERSION} only, not {versions}", field="protocol-versions"
    )
