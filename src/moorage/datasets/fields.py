"""Lookup of a table's fields by path. Dots separate the names of nested fields."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from moorage.core.errors import SecurableNotFound

if TYPE_CHECKING:
    from lance import LanceDataset

QUERY_COLUMNS = frozenset({"_rowid", "_rowaddr", "_rowoffset", "_distance", "_score", "query_index"})
"""Columns that exist only in the results of queries."""


def require_fields(dataset: LanceDataset, paths: Iterable[str], field: str) -> None:
    """Raise SecurableNotFound unless every path is a field of the table."""
    for path in paths:
        field_at(dataset, path, field)


def field_at(dataset: LanceDataset, path: str, field: str) -> Any:
    """Return the field as an Arrow field."""
    found: Any = dataset.lance_schema.field_case_insensitive(path)
    if found is None:
        raise SecurableNotFound(f"the table has no column '{path}'", field=field, kind="column")
    return found.to_arrow()
