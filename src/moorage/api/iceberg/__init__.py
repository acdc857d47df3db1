"""The Iceberg REST catalog."""

from moorage.api.iceberg import commits, configuration, namespaces, plans, reports, tables, views
from moorage.api.iceberg.api import iceberg

__all__ = ["commits", "configuration", "iceberg", "namespaces", "plans", "reports", "tables", "views"]
