"""A server with authentication, its administrator, a reader and a writer."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import load_catalog

from moorage.client import Client
from moorage.testing.server import ServerProcess

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "city": ["Oslo", "Rome", "Kyiv"]})
READER, WRITER = "reader@example.com", "writer"


def administrator_of(server: ServerProcess) -> str:
    """The token of the administrator, which the first start of a server prints."""
    (token,) = set(re.findall(r"moor_[A-Za-z0-9_-]+", server.output()))
    return str(token)


class GuardedLake:
    """A server with the catalog `lake`, a writer who may create in `lake.sales`, and a reader without grants."""

    def __init__(self, server: ServerProcess) -> None:
        self.url = server.url
        self.admin = administrator_of(server)
        with Client(self.url, token=self.admin) as client:
            client.catalogs.create("lake")
            client.namespaces.create("lake", ["sales"])
            access = client.access
            access.create("Users", READER)
            access.create("ServicePrincipals", WRITER)
            access.change_grants("catalog", "lake", WRITER, add=["USE CATALOG"])
            access.change_grants("schema", "lake.sales", WRITER, add=["USE SCHEMA", "CREATE TABLE"])
            self.reader = access.create_token(READER).token or ""
            self.writer = access.create_token(WRITER).token or ""

    def grant(self, table: str) -> None:
        """Let the reader read a table."""
        with Client(self.url, token=self.admin) as client:
            client.access.change_grants("catalog", "lake", READER, add=["USE CATALOG", "USE SCHEMA"])
            client.access.change_grants("table", f"lake.sales.{table}", READER, add=["SELECT"])

    def iceberg(self, **how: str) -> Any:
        return load_catalog("lake", type="rest", uri=f"{self.url}/iceberg", warehouse="lake", **how)
