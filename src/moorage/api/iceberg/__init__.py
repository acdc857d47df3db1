"""The Iceberg REST catalog."""

from moorage.api.iceberg import commits, configuration, namespaces, reports, tables, views
from moorage.api.iceberg.api import iceberg

__all__ = ["commits", "configuration", "iceberg", "namespaces", "reports", "tables", "views"]
