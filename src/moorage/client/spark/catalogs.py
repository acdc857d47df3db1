"""The catalogs of a server in Spark SQL. Pure, so that `moorage spark-conf` prints what a session uses."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

_NAME: Final = re.compile(r"[A-Za-z0-9_]+(-[A-Za-z0-9_]+)*")
"""The names that a Spark setting can contain. Spark splits settings at dots."""


def catalog_configuration(url: str, catalogs: Iterable[str], *, token: str | None = None) -> dict[str, str]:
    """The settings for Iceberg's connector, one catalog of Spark per catalog of the server, under the same name."""
    conf: dict[str, str] = {}
    for name in catalogs:
        if not _NAME.fullmatch(name) or name == "spark_catalog":
            continue
        prefix = f"spark.sql.catalog.{name}"
        conf |= {
            prefix: "org.apache.iceberg.spark.SparkCatalog",
            f"{prefix}.type": "rest",
            f"{prefix}.uri": f"{url.rstrip('/')}/iceberg",
            f"{prefix}.warehouse": name,
            f"{prefix}.header.X-Iceberg-Access-Delegation": "vended-credentials",
            # Another program may commit between two statements. Iceberg's cache would hide it for half a minute.
            f"{prefix}.cache-enabled": "false",
        }
        if token:
            conf[f"{prefix}.token"] = token
    return conf
