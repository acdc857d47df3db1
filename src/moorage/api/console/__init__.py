"""Moorage's own API: catalogs, namespaces, the feed, jobs, transactions, health."""

from moorage.api.console import (
    catalogs,
    feed,
    health,
    jobs,
    namespaces,
    pipelines,
    recovery,
    reports,
    table_health,
    tables,
    transactions,
)
from moorage.api.console.api import console

__all__ = [
    "catalogs",
    "console",
    "feed",
    "health",
    "jobs",
    "namespaces",
    "pipelines",
    "recovery",
    "reports",
    "table_health",
    "tables",
    "transactions",
]
