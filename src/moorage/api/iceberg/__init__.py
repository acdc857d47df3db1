"""The Iceberg REST catalog."""

from moorage.api.iceberg import (
    commits,
    configuration,
    functions,
    namespaces,
    oauth,
    plans,
    reports,
    signing,
    tables,
    views,
)
from moorage.api.iceberg.api import iceberg

__all__ = [
    "commits",
    "configuration",
    "functions",
    "iceberg",
    "namespaces",
    "oauth",
    "plans",
    "reports",
    "signing",
    "tables",
    "views",
]
