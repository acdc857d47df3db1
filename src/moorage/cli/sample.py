"""The sample lake of `moorage up`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from moorage.client import Client
    from moorage.server.settings import Settings

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

ORDERS: Final = {"id": "long", "customer": "string", "total": "decimal(9, 2)", "ordered": "timestamptz"}
"""The columns of an Iceberg table that clients can fill."""
BOATS: Final[dict[str, list[Any]]] = {
    "name": ["Esmeralda", "Nellie", "Roi des Belges", "Vigilance"],
    "built": [1952, 1878, 1887, 1926],
    "metres": [113.1, 15.0, 15.2, 23.8],
}
"""The rows of a Lance table."""


def make(client: Client) -> bool:
    """Create the missing parts of the sample lake. Returns whether anything was missing."""
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


def make_tables(url: str, settings: Settings) -> None:
    """Create the missing tables, as a Delta, Iceberg or Lance client would."""
    import httpx

    from moorage.cli import sample_delta

    fields = [{"id": id, "name": name, "type": ORDERS[name], "required": False} for id, name in enumerate(ORDERS, 1)]
    with httpx.Client(base_url=url, trust_env=False, timeout=60) as http:
        orders = http.post(
            f"/iceberg/v1/{CATALOG}/namespaces/sales/tables",
            json={"name": "orders", "schema": {"type": "struct", "fields": fields}},
        )
        boats = http.post(
            f"/lance/v1/table/{CATALOG}$science$boats/create",
            content=_arrow_stream(),
            headers={"content-type": "application/vnd.apache.arrow.stream"},
        )
        if settings.managed_tables != "off":
            sample_delta.make(http, settings)
    for answer in (orders, boats):
        if answer.status_code != httpx.codes.CONFLICT:
            answer.raise_for_status()


def _arrow_stream() -> bytes:
    import pyarrow

    rows, sink = pyarrow.table(BOATS), pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows)
    return bytes(sink.getvalue())
