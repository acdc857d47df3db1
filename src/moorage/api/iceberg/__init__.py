"""The Iceberg REST catalog."""

from moorage.api.iceberg import commits, configuration, namespaces, tables, views
from moorage.api.iceberg.api import iceberg

__all__ = ["commits", "configuration", "iceberg", "namespaces", "tables", "views"]
