"""Clustering columns: stored in a domain of the log by physical name, shown by logical name."""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec

from moorage.core.errors import InvalidInput
from moorage.formats.delta.schema import DataType, Field, Schema

DOMAIN: Final = "delta.clustering"
FEATURE: Final = "clustering"
PROPERTY: Final = "clusteringColumns"

ColumnPaths: TypeAlias = tuple[tuple[str, ...], ...]
"""One path per column, from the root of the schema: `(("id",), ("address", "city"))`."""


class _Domain(msgspec.Struct, rename="camel"):
    clustering_columns: ColumnPaths


def parse_domain(configuration: str) -> ColumnPaths:
    """The clustering columns in the domain's configuration, by physical name."""
    try:
        return msgspec.json.decode(configuration, type=_Domain).clustering_columns
    except (msgspec.MsgspecError, RecursionError):
        raise InvalidInput(f"the domain {DOMAIN} has no clusteringColumns", field=DOMAIN) from None


def parse_column_paths(text: str, *, field: str = PROPERTY) -> ColumnPaths:
    """`[["id"],["address","city"]]`, the form in which Unity writes clustering columns."""
    try:
        return msgspec.json.decode(text, type=ColumnPaths)
    except (msgspec.MsgspecError, RecursionError):
        raise InvalidInput(
            f"{field} must be a JSON array of column paths, each an array of names", field=field
        ) from None


def logical(paths: ColumnPaths, schema: Schema) -> ColumnPaths:
    """The same columns by their names in the schema. A path element that the schema lacks stays unchanged."""
    return tuple(_logical_path(path, schema) for path in paths)


def _logical_path(path: tuple[str, ...], schema: Schema) -> tuple[str, ...]:
    names: list[str] = []
    level: DataType | None = schema
    for step in path:
        field = _physical_field(level, step)
        names.append(step if field is None else field.name)
        level = None if field is None else field.type
    return tuple(names)


def _physical_field(level: DataType | None, name: str) -> Field | None:
    if not isinstance(level, Schema):
        return None
    return next((field for field in level.fields if field.physical_name == name), None)
