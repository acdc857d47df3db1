"""The Lance namespace."""

from moorage.api.lance import namespaces, tables, versions
from moorage.api.lance.api import lance

__all__ = ["lance", "namespaces", "tables", "versions"]
