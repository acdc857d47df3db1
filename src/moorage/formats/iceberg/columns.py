"""The columns of a table in the form that all APIs share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from moorage.core.securables import Column
from moorage.formats.iceberg.documents import Document
from moorage.formats.iceberg.schemas import current_schema

# Types whose SQL name differs from Iceberg's.
_SQL_NAMES = {
    "long": "bigint",
    "timestamp": "timestamp_ntz",
    "timestamptz": "timestamp",
    "uuid": "string",
    "time": "bigint",
}


def columns_of(table: Document) -> tuple[Column, ...]:
    """The top-level columns of the current schema. Partition columns have their position in the spec."""
    return columns_in(current_schema(table), _positions(table))


def columns_in(schema: Document, positions: Mapping[int, int] | None = None) -> tuple[Column, ...]:
    """The top-level columns of a schema."""
    return tuple(
        Column(
            name=field["name"],
            type_text=type_text(field["type"]),
            type_json=msgspec.json.encode(field["type"]).decode(),
            nullable=not field["required"],
            comment=field.get("doc"),
            partition_index=(positions or {}).get(field["id"]),
        )
        for field in schema["fields"]
    )


def _positions(table: Document) -> dict[int, int]:
    """Positions of the identity partition columns. The result of another transform is not a column of the table."""
    spec = next(each for each in table["partition-specs"] if each["spec-id"] == table["default-spec-id"])
    plain = [field["source-id"] for field in spec["fields"] if field["transform"] == "identity"]
    return {source: position for position, source in enumerate(plain)}


def type_text(kind: Any) -> str:
    """The SQL name of a type."""
    if isinstance(kind, str):
        return "binary" if kind.startswith("fixed") else _SQL_NAMES.get(kind, kind.replace(" ", ""))
    match kind["type"]:
        case "list":
            return f"array<{type_text(kind['element'])}>"
        case "map":
            return f"map<{type_text(kind['key'])},{type_text(kind['value'])}>"
    inner = (f"{field['name']}:{type_text(field['type'])}" for field in kind["fields"])
    return f"struct<{','.join(inner)}>"
