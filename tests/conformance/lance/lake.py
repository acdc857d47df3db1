"""A lake on a real server, used with Lance's generated client and read back with pylance."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import lance
import lance_namespace
import pyarrow as pa
import pytest
from lance_namespace_urllib3_client import ApiClient, ApiException, Configuration
from lance_namespace_urllib3_client.api.branch_api import BranchApi
from lance_namespace_urllib3_client.api.data_api import DataApi
from lance_namespace_urllib3_client.api.index_api import IndexApi
from lance_namespace_urllib3_client.api.metadata_api import MetadataApi
from lance_namespace_urllib3_client.api.tag_api import TagApi
from lance_namespace_urllib3_client.api.transaction_api import TransactionApi
from lance_namespace_urllib3_client.models import CreateNamespaceRequest

SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string()), ("vector", pa.list_(pa.float32(), 4))])
WORDS = ("a red boat", "a blue boat", "a green harbour", "the old lighthouse")


def rows(count: int, first: int = 0) -> pa.Table:
    """Rows whose vectors point into directions that depend on their ids."""
    ids = range(first, first + count)
    columns = {
        "id": list(ids),
        "text": [WORDS[id % len(WORDS)] for id in ids],
        "vector": [[float(id), 1.0, float(id % 7), 0.5] for id in ids],
    }
    return pa.table(columns, SCHEMA)


def stream(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def arrow(answer: Any) -> pa.Table:
    """The rows in the response to a query, which is an Arrow IPC file."""
    return pa.ipc.open_file(pa.py_buffer(bytes(answer))).read_all()


class Lake:
    """The client's interfaces, and pylance beside them."""

    def __init__(self, url: str) -> None:
        self.url = url
        client = ApiClient(Configuration(host=f"{url}/lance"))
        self.data = DataApi(client)
        self.indexes = IndexApi(client)
        self.tags = TagApi(client)
        self.branches = BranchApi(client)
        self.metadata = MetadataApi(client)
        self.transactions = TransactionApi(client)
        self._namespace = lance_namespace.connect("rest", {"uri": f"{url}/lance"})
        self._names = count()
        for id in ("lake", "lake$sea"):
            self.metadata.create_namespace(id, CreateNamespaceRequest())

    def name(self) -> str:
        """The id of a table that does not exist yet."""
        return f"lake$sea$t{next(self._names)}"

    def table(self, size: int = 10) -> str:
        """A new table with rows."""
        id = self.name()
        self.data.create_table(id, stream(rows(size)))
        return id

    def dataset(self, id: str, version: int | str | None = None) -> lance.LanceDataset:
        """The table as any pylance client sees it."""
        return lance.dataset(namespace_client=self._namespace, table_id=id.split("$"), version=version)

    def ids(self, id: str, version: int | str | None = None) -> list[int]:
        found: list[int] = sorted(self.dataset(id, version).to_table(columns=["id"])["id"].to_pylist())
        return found


@contextmanager
def refused(status: int, code: int) -> Iterator[None]:
    """The client must raise an error with this status and code."""
    with pytest.raises(ApiException) as caught:
        yield
    error = caught.value
    body = error.body if isinstance(error.body, str) else bytes(error.body).decode()
    assert (error.status, f'"code":{code},' in body) == (status, True), f"{error.status}: {body}"
