"""A table or view on the wire of the Unity API."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import UNSET, Raw

from moorage.api.unity.clients import OTHER, Client
from moorage.api.unity.columns import to_wire
from moorage.api.unity.shapes import EXAMPLE_ID, EXAMPLE_STAMPS, stamps, to_wire_location
from moorage.api.unity.table_bodies import DependencyList, TableInfo, TableType
from moorage.core.securables import Kind, Securable
from moorage.usecases.catalog.relations import RETENTION_DAYS

TABLE_TYPE, VIEW_DEFINITION, VIEW_DEPENDENCIES = "table_type", "view_definition", "view_dependencies"
"""Keys in a view's details."""


def table_info(
    securable: Securable,
    catalog_name: str,
    schema_name: str,
    client: Client = OTHER,
    *,
    with_columns: bool = True,
    with_properties: bool = True,
) -> TableInfo:
    doc = securable.doc
    table_format = doc.table.format if securable.kind is Kind.TABLE and doc.table is not None else None
    depends_on = doc.details.get(VIEW_DEPENDENCIES)
    return TableInfo(
        name=securable.name,
        catalog_name=catalog_name,
        schema_name=schema_name,
        table_type=client.table_type(table_type_of(securable)),
        data_source_format=None if table_format is None else client.format(table_format.upper()),
        table_format=table_format,
        columns=to_wire(doc.table.columns) if doc.table and with_columns else [],
        storage_location=to_wire_location(doc.location),
        comment=doc.comment,
        properties=doc.properties if with_properties else {},
        table_id=securable.id,
        view_definition=doc.details.get(VIEW_DEFINITION),
        view_dependencies=None if depends_on is None else msgspec.convert(depends_on, DependencyList),
        retention_days=doc.details.get(RETENTION_DAYS, UNSET),
        **stamps(securable),
    )


def table_type_of(securable: Securable) -> TableType:
    if securable.kind is Kind.VIEW:
        return "METRIC_VIEW" if securable.doc.details.get(TABLE_TYPE) == "METRIC_VIEW" else "VIEW"
    return "MANAGED" if securable.doc.table is None or securable.doc.table.managed else "EXTERNAL"


_encode = msgspec.json.Encoder().encode
_MAX_BYTES = 32 * 1024 * 1024
_NOT_ENCODED = (0, Raw())


class _EncodedTables:
    """A cache of tables as JSON bytes, by parent names, client, id and revision. It is cleared when it is too large."""

    def __init__(self) -> None:
        self._encoded: dict[tuple[str, str, Client], dict[str, tuple[int, Raw]]] = {}
        self._bytes = 0

    def get(self, tables: Iterable[Securable], catalog_name: str, schema_name: str, client: Client) -> list[Raw]:
        if self._bytes > _MAX_BYTES:
            self._encoded.clear()
            self._bytes = 0
        cached = self._encoded.setdefault((catalog_name, schema_name, client), {})
        found = []
        for table in tables:
            revision, encoded = cached.get(table.id, _NOT_ENCODED)
            if revision != table.revision:
                encoded = Raw(_encode(table_info(table, catalog_name, schema_name, client)))
                cached[table.id] = table.revision, encoded
                self._bytes += len(bytes(encoded))
            found.append(encoded)
        return found


encoded_tables = _EncodedTables().get
"""Like `table_info`, but as JSON bytes. Unchanged tables are not encoded again: it is most of the cost of a list."""


EXAMPLE_TABLE: dict[str, Any] = {
    "name": "orders",
    "catalog_name": "sample",
    "schema_name": "sales",
    "table_type": "EXTERNAL",
    "data_source_format": "DELTA",
    "table_format": "delta",
    "columns": [
        {
            "name": "id",
            "type_text": "bigint",
            "type_json": '{"name":"id","type":"long","nullable":false,"metadata":{}}',
            "type_name": "LONG",
            "type_precision": 0,
            "type_scale": 0,
            "type_interval_type": None,
            "position": 0,
            "comment": None,
            "nullable": False,
            "partition_index": None,
        }
    ],
    "storage_location": "file:///data/orders",
    "comment": None,
    "properties": {},
    "table_id": EXAMPLE_ID,
    "view_definition": None,
    "view_dependencies": None,
    **EXAMPLE_STAMPS,
}
