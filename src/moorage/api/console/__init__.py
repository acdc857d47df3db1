"""Moorage's own API: catalogs, namespaces, the feed, jobs, transactions, health."""

from moorage.api.console import (
    accesses,
    audit,
    catalogs,
    feed,
    health,
    jobs,
    lineage,
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
    "audit",
    "catalogs",
    "console",
    "feed",
    "health",
    "jobs",
    "lineage",
    "namespaces",
    "pipelines",
    "recovery",
    "reports",
    "rewrites",
    "table_health",
    "tables",
    "transactions",
]
