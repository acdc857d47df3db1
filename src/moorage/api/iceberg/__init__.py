"""The Iceberg REST catalog."""

from moorage.api.iceberg import (
    commits,
    configuration,
    functions,
    namespaces,
    plans,
    reports,
    signing,
    tables,
    views,
)
from moorage.api.iceberg.api import iceberg
from moorage.api.iceberg.oauth import oauth

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
