"""The API families through which the operator allows managed Delta tables: `/delta/v1`, and the older ones."""

from __future__ import annotations

from moorage.core.errors import InvalidInput
from moorage.usecases.ports import ManagedTables


def require_creation_enabled(tables: ManagedTables) -> None:
    """Raise InvalidInput if the creation of managed tables is disabled. Existing tables keep working."""
    if tables == "off":
        raise InvalidInput("this server creates no managed tables (--managed-tables off); register an external table")


def require_older_families_enabled(tables: ManagedTables) -> None:
    """Raise InvalidInput if managed tables are served through /delta/v1 only."""
    if tables == "delta-v1":
        raise InvalidInput("this server serves managed Delta tables through /delta/v1 only")
