"""A Spark session with Delta, Iceberg and S3, for workers and for programs that use the catalog's tables.

Needs the extra `moorage[spark]` and Java 17. The jars are pinned, resolved by name once, and kept in a cache.
"""

from typing import TYPE_CHECKING, Any

from moorage.client.spark.configuration import configuration
from moorage.client.spark.failure import SparkUnavailable
from moorage.client.spark.jars import fetch_jars
from moorage.client.spark.sessions import connect_command, discard_session, is_alive, session, start_session
from moorage.client.spark.settings import SparkSettings

if TYPE_CHECKING:
    from moorage.client.delta.sql import run_sql
    from moorage.client.delta.table import DeltaTable

__all__ = [
    "DeltaTable",
    "SparkSettings",
    "SparkUnavailable",
    "configuration",
    "connect_command",
    "discard_session",
    "fetch_jars",
    "is_alive",
    "run_sql",
    "session",
    "start_session",
]

_FROM_DELTA = {"DeltaTable": "moorage.client.delta.table", "run_sql": "moorage.client.delta.sql"}


def __getattr__(name: str) -> Any:
    """Changes of Delta tables need pyarrow, which a session does not: import them when they are used."""
    if name not in _FROM_DELTA:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_FROM_DELTA[name]), name)
