"""A Spark session with Delta, Iceberg and S3, for workers and for programs that use the catalog's tables.

Needs the extra `moorage[spark]` and Java 17. The jars are pinned, resolved by name once, and kept in a cache.
"""

from moorage.client.spark.configuration import configuration
from moorage.client.spark.failure import SparkUnavailable
from moorage.client.spark.jars import fetch_jars
from moorage.client.spark.sessions import connect_command, session, start_session
from moorage.client.spark.settings import SparkSettings

__all__ = [
    "SparkSettings",
    "SparkUnavailable",
    "configuration",
    "connect_command",
    "fetch_jars",
    "session",
    "start_session",
]
