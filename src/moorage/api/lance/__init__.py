"""The Lance namespace."""

from moorage.api.lance import (
    batches,
    data,
    indexes,
    namespaces,
    query,
    refs,
    registered,
    rows,
    schema,
    staging,
    tables,
    tokens,
    transactions,
    unsupported,
    versions,
)
from moorage.api.lance.api import lance

__all__ = [
    "batches",
    "data",
    "indexes",
    "lance",
    "namespaces",
    "query",
    "refs",
    "registered",
    "rows",
    "schema",
    "staging",
    "tables",
    "tokens",
    "transactions",
    "unsupported",
    "versions",
]
