"""The Lance namespace."""

from moorage.api.lance import namespaces, staging, tables, versions
from moorage.api.lance.api import lance

__all__ = ["lance", "namespaces", "staging", "tables", "versions"]
