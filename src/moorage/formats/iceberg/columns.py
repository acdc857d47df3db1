"""The columns of a table as every API can describe them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from moorage.core.securables import Column
from moorage.formats.iceberg.documents import Document
from moorage.formats.iceberg.schemas import current_schema

# Where SQL has another word than Iceberg.
_WORDS = {
    "long": "bigint",
    "timestamp": "timestamp_ntz",
    "timestamptz": "timestamp",
    "uuid": "string",
    "time": "bigint",
}


def columns_of(table: Document) -> tuple[Column, ...]:
    """The top-level columns of the current schema; partition columns carry their place in the spec."""
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
    """Only columns that partition the table by their very values: a bucket is no column of the table."""
    spec = next(each for each in table["partition-specs"] if each["spec-id"] == table["default-spec-id"])
    plain = [field["source-id"] for field in spec["fields"] if field["transform"] == "identity"]
    return {source: position for position, source in enumerate(plain)}


def type_text(kind: Any) -> str:
    """A type in the words of SQL."""
    if isinstance(kind, str):
        return "binary" if kind.startswith("fixed") else _WORDS.get(kind, kind.replace(" ", ""))
    match kind["type"]:
        case "list":
            return f"array<{type_text(kind['element'])}>"
        case "map":
            return f"map<{type_text(kind['key'])},{type_text(kind['value'])}>"
    inner = (f"{field['name']}:{type_text(field['type'])}" for field in kind["fields"])
    return f"struct<{','.join(inner)}>"
