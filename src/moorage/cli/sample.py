"""The sample lake of `moorage up`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from moorage.client import Client

CATALOG: Final = "sample"


class Namespace(NamedTuple):
    path: tuple[str, ...]
    comment: str
    properties: dict[str, str]


NAMESPACES: Final = (
    Namespace(("sales",), "What we sold, and to whom.", {"team": "sales"}),
    Namespace(("sales", "eu"), "Orders from Europe; kept there.", {"team": "sales", "region": "eu"}),
    Namespace(("science",), "Experiments. Names come and go.", {"team": "research"}),
)


def make(client: Client) -> bool:
    """Create what is missing of the sample lake; whether anything was."""
    made = False
    if not any(catalog.name == CATALOG for catalog in client.catalogs.list()):
        client.catalogs.create(CATALOG, comment="A small lake to look around in.", properties={"purpose": "demo"})
        made = True
    for path, comment, properties in NAMESPACES:
        beside = client.namespaces.list(CATALOG, path[:-1])
        if not any(namespace.name == path[-1] for namespace in beside):
            client.namespaces.create(CATALOG, path, comment=comment, properties=properties)
            made = True
    return made
