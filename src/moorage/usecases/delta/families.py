"""Through which families of the API managed Delta tables are made and written, as the operator decided."""

from __future__ import annotations

from moorage.core.errors import InvalidInput
from moorage.usecases.ports import ManagedTables


def require_making(tables: ManagedTables) -> None:
    """InvalidInput where nobody makes managed tables any more. Those that exist go on."""
    if tables == "off":
        raise InvalidInput("managed tables are switched off on this server; register an external one")


def require_older_families(tables: ManagedTables) -> None:
    """InvalidInput where managed tables are written through /delta/v1 alone."""
    if tables == "delta-v1":
        raise InvalidInput("this server serves managed Delta tables through /delta/v1 only")
