"""Fields of a table, by their paths: nested ones by dots."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from moorage.core.errors import SecurableNotFound

if TYPE_CHECKING:
    from lance import LanceDataset

MADE_BY_QUERIES = frozenset({"_rowid", "_rowaddr", "_rowoffset", "_distance", "_score", "query_index"})
"""Columns that no table has and a query makes."""


def require_fields(dataset: LanceDataset, paths: Iterable[str], field: str) -> None:
    """Every path leads to a field of the table."""
    for path in paths:
        field_at(dataset, path, field)


def field_at(dataset: LanceDataset, path: str, field: str) -> Any:
    """The field as Arrow describes it."""
    found: Any = dataset.lance_schema.field_case_insensitive(path)
    if found is None:
        raise SecurableNotFound(f"the table has no column '{path}'", field=field, kind="column")
    return found.to_arrow()
