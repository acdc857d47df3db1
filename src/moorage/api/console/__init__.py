"""Moorage's own API: catalogs, namespaces, the feed, jobs, transactions, health."""

from moorage.api.console import (
    accesses,
    catalogs,
    feed,
    health,
    jobs,
    namespaces,
    pipelines,
    recovery,
    reports,
    rewrites,
    table_health,
    tables,
    transactions,
)
from moorage.api.console.api import console

__all__ = [
    "accesses",
    "catalogs",
    "console",
    "feed",
    "health",
    "jobs",
    "namespaces",
    "pipelines",
    "recovery",
    "reports",
    "rewrites",
    "table_health",
    "tables",
    "transactions",
]
