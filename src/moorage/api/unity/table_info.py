"""A table or view as Unity's clients see it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import UNSET, Raw

from moorage.api.unity.columns import to_wire
from moorage.api.unity.shapes import EXAMPLE_ID, EXAMPLE_STAMPS, location_of, stamps
from moorage.api.unity.table_bodies import DependencyList, TableInfo, TableType
from moorage.core.securables import Kind, Securable
from moorage.usecases.catalog.relations import RETENTION_DAYS

TABLE_TYPE, VIEW_DEFINITION, VIEW_DEPENDENCIES = "table_type", "view_definition", "view_dependencies"
"""In a view's details."""


def table_info(
    securable: Securable,
    catalog_name: str,
    schema_name: str,
    *,
    with_columns: bool = True,
    with_properties: bool = True,
) -> TableInfo:
    doc = securable.doc
    is_table = securable.kind is Kind.TABLE and doc.table is not None
    depends_on = doc.details.get(VIEW_DEPENDENCIES)
    return TableInfo(
        name=securable.name,
        catalog_name=catalog_name,
        schema_name=schema_name,
        table_type=_type_of(securable),
        data_source_format=doc.table.format.upper() if is_table and doc.table else None,
        columns=to_wire(doc.table.columns) if doc.table and with_columns else [],
        storage_location=location_of(doc.location),
        comment=doc.comment,
        properties=doc.properties if with_properties else {},
        table_id=securable.id,
        view_definition=doc.details.get(VIEW_DEFINITION),
        view_dependencies=None if depends_on is None else msgspec.convert(depends_on, DependencyList),
        retention_days=doc.details.get(RETENTION_DAYS, UNSET),
        **stamps(securable),
    )


def _type_of(securable: Securable) -> TableType:
    if securable.kind is Kind.VIEW:
        return "METRIC_VIEW" if securable.doc.details.get(TABLE_TYPE) == "METRIC_VIEW" else "VIEW"
    return "MANAGED" if securable.doc.table is None or securable.doc.table.managed else "EXTERNAL"


_encode = msgspec.json.Encoder().encode
_MOST_BYTES = 32 * 1024 * 1024
_UNWRITTEN = (0, Raw())


class _Written:
    """Tables as bytes, by what they were written from. Forgets all when it grows too large."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], dict[str, tuple[int, Raw]]] = {}
        self._bytes = 0

    def get(self, tables: Iterable[Securable], catalog_name: str, schema_name: str) -> list[Raw]:
        if self._bytes > _MOST_BYTES:
            self._known.clear()
            self._bytes = 0
        known = self._known.setdefault((catalog_name, schema_name), {})
        found = []
        for table in tables:
            revision, text = known.get(table.id, _UNWRITTEN)
            if revision != table.revision:
                text = Raw(_encode(table_info(table, catalog_name, schema_name)))
                known[table.id] = table.revision, text
                self._bytes += len(bytes(text))
            found.append(text)
        return found


encoded_tables = _Written().get
"""The same as bytes. A record that did not change is not written out again: lists consist of little else."""


EXAMPLE_TABLE: dict[str, Any] = {
    "name": "orders",
    "catalog_name": "sample",
    "schema_name": "sales",
    "table_type": "EXTERNAL",
    "data_source_format": "DELTA",
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
