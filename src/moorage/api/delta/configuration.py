"""Which version of this API is spoken here."""

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
    """Which catalog, and which versions the client speaks."""

    catalog: Annotated[str, Meta(description="The catalog that is going to be used.")]
    protocol_versions: Annotated[
        str, Meta(description="The highest version of each major one, joined by commas: 1.1,2.3.")
    ]


class DeltaCatalogConfig(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """What can be called, in the newest version that both sides speak."""

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
    """The operations that are there, and the version in which they are spoken."""
    _require_first_major(call.query.protocol_versions)
    await browse.get(ports, call.caller, addresses.catalog(call.query.catalog))
    endpoints = [f"{route.verb} {route.pattern.path.removeprefix(_ROOT)}" for route in delta.routes]
    return Answer.json(DeltaCatalogConfig(endpoints=endpoints, protocol_version=VERSION))


def _require_first_major(versions: str) -> None:
    """Whoever speaks 1.x speaks 1.0, which is all there is."""
    for version in versions.split(","):
        major, dot, minor = version.strip().partition(".")
        if not (major.isascii() and major.isdigit() and (not dot or (minor.isascii() and minor.isdigit()))):
            raise InvalidInput(f"protocol-versions: {version!r} is no version", field="protocol-versions")
        if int(major) == 1:
            return
    raise InvalidInput(f"protocol-versions: only {VERSION} is spoken here, not {versions}", field="protocol-versions")
