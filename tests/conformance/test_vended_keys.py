"""Clients that have nothing but a token of the catalog use tables in an object store. The server vends the keys."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import deltalake
import duckdb
import httpx
import lance
import lance_namespace
import lancedb
import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import ForbiddenError

import moorage.client.lance
from moorage.client import Client
from moorage.testing.minio import MinioServer
from moorage.testing.server import ServerProcess
from tests.conformance.ducks import duck

pytestmark = [
    pytest.mark.xdist_group("s3"),
    pytest.mark.filterwarnings("ignore:lance is not fork-safe:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*unstable"),
]

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "city": ["Oslo", "Rome", "Kyiv"]})
READER = "reader@example.com"


class Lake:
    """A server with authentication and all tables in an object store, and a reader who may use `lake.s`."""

    def __init__(self, server: ServerProcess, root: str) -> None:
        self.url, self.root = server.url, root
        (self.admin,) = set(re.findall(r"moor_[A-Za-z0-9_-]+", server.output()))
        with Client(self.url, token=self.admin) as client:
            client.catalogs.create("lake")
            client.namespaces.create("lake", ["s"])
            client.access.create("Users", READER)
            client.access.change_grants("catalog", "lake", READER, add=["USE CATALOG", "USE SCHEMA"])
            self.reader = client.access.create_token(READER).token or ""

    def grant(self, table: str) -> None:
        with Client(self.url, token=self.admin) as client:
            client.access.change_grants("table", f"lake.s.{table}", READER, add=["SELECT"])

    def ask(self, path: str, token: str | None = None, **body: Any) -> Any:
        answer = self.post(path, token or self.admin, **body)
        assert answer.is_success, answer.text
        return answer.json()

    def post(self, path: str, token: str, **body: Any) -> httpx.Response:
        return httpx.post(
            f"{self.url}/api/2.1/unity-catalog/{path}",
            json=body,
            headers={"authorization": f"Bearer {token}"},
            trust_env=False,
            timeout=60,
        )

    def write_delta(self, name: str) -> None:
        """Write an external table with the key for its folder, and register it."""
        url = f"{self.root}own/{name}"
        key = self.ask("temporary-path-credentials", url=url, operation="PATH_CREATE_TABLE")
        options = options_of(key)
        deltalake.write_deltalake(url, ROWS, storage_options=options)
        described: dict[str, Any] = {
            "table_type": "EXTERNAL",
            "data_source_format": "DELTA",
            "columns": [],
            "storage_location": url,
        }
        self.ask("tables", name=name, catalog_name="lake", schema_name="s", **described)

    def lance(self, token: str) -> Any:
        settings = {"uri": f"{self.url}/lance", "header.Authorization": f"Bearer {token}"}
        return lance_namespace.connect("rest", settings)


def options_of(answer: Any) -> dict[str, str]:
    """deltalake's storage options with a key that the server vended."""
    key = answer["aws_temp_credentials"]
    names = ("access_key_id", "secret_access_key", "session_token", "region")
    return {**{f"aws_{name}": key[name] for name in names}, **at(key["endpoint"])}


def at(endpoint: str) -> dict[str, str]:
    return {"aws_endpoint_url": endpoint, "aws_allow_http": "true", "aws_virtual_hosted_style_request": "false"}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory, minio: MinioServer) -> Iterator[Lake]:
    root = f"s3://{minio.new_bucket()}/lake/"
    data: Path = tmp_path_factory.mktemp("vended") / "data"
    environment = {**minio.settings(root), "MOORAGE_MANAGED_LOCATION": f"{root}managed"}
    with ServerProcess(data, flags=["--auth", "on"], environment=environment) as server:
        yield Lake(server, root)
        assert not server.errors()


def test_deltalake_and_polars_read_a_delta_table(lake: Lake, minio: MinioServer) -> None:
    """deltalake is given its key: if it asks for one itself, by `uc://` names, it often deadlocks (delta-rs#3113)."""
    polars = pytest.importorskip("polars", reason="polars is one of the clients that make setup installs")
    lake.write_delta("orders")
    id = httpx.get(
        f"{lake.url}/api/2.1/unity-catalog/tables/lake.s.orders",
        headers={"authorization": f"Bearer {lake.admin}"},
        trust_env=False,
    ).json()["table_id"]
    keys = "temporary-table-credentials"
    assert lake.post(keys, lake.reader, table_id=id, operation="READ").status_code == 403
    lake.grant("orders")
    assert lake.post(keys, lake.reader, table_id=id, operation="READ_WRITE").status_code == 403
    location, read = f"{lake.root}own/orders", options_of(lake.ask(keys, lake.reader, table_id=id, operation="READ"))
    assert deltalake.DeltaTable(location, storage_options=read).to_pyarrow_table() == ROWS
    with pytest.raises(Exception, match=r"(?i)denied|privileges"):
        deltalake.write_deltalake(location, ROWS, mode="append", storage_options=read)
    write = options_of(lake.ask(keys, table_id=id, operation="READ_WRITE"))
    deltalake.write_deltalake(location, ROWS, mode="append", storage_options=write)
    store = {**at(minio.endpoint), "aws_region": "eu-north-1"}
    catalog = polars.Catalog(lake.url, bearer_token=lake.reader, require_https=False)
    assert catalog.scan_table("lake", "s", "orders", storage_options=store).collect().height == 6


def test_pylance_writes_and_reads_a_managed_table(lake: Lake) -> None:
    by_name: dict[str, Any] = {"namespace_client": lake.lance(lake.admin), "table_id": ["lake", "s", "vectors"]}
    lance.write_dataset(ROWS, mode="create", **by_name)
    assert lance.write_dataset(ROWS, mode="append", **by_name).version == 2
    options = lake.lance(lake.admin).describe_table(_named("vectors")).storage_options
    assert options["expires_at_millis"].isdigit()
    lake.grant("vectors")
    read: dict[str, Any] = {**by_name, "namespace_client": lake.lance(lake.reader)}
    assert lance.dataset(**read).count_rows() == 6
    with pytest.raises(OSError, match=r"(?i)denied|forbidden|may not"):
        lance.write_dataset(ROWS, mode="append", **read)
    location = lance.dataset(**by_name).uri
    own = lake.lance(lake.reader).describe_table(_named("vectors")).storage_options
    with pytest.raises(OSError, match=r"(?i)denied"):
        lance.write_dataset(ROWS, f"{location}/more", storage_options=own)


def _named(table: str) -> Any:
    from lance_namespace import DescribeTableRequest

    return DescribeTableRequest(id=["lake", "s", table])


def test_lancedb_writes_and_reads_a_managed_table(lake: Lake) -> None:
    headers = {"header.Authorization": f"Bearer {lake.admin}"}
    db = lancedb.connect_namespace("rest", {"uri": f"{lake.url}/lance", **headers})
    table = db.create_table("cities", ROWS, namespace_path=["lake", "s"])
    table.add(ROWS)
    assert db.open_table("cities", namespace_path=["lake", "s"]).count_rows() == 6


def test_the_python_client_writes_two_tables_in_one_transaction(lake: Lake) -> None:
    client = moorage.client.lance.Lake(lake.url, headers={"Authorization": f"Bearer {lake.admin}"})
    tables: list[list[str]] = [["lake", "s", "left"], ["lake", "s", "right"]]
    with client.transaction() as transaction:
        for table in tables:
            lance.write_dataset(ROWS, mode="create", namespace_client=transaction, table_id=table)
    assert [lance.dataset(namespace_client=client, table_id=table).count_rows() for table in tables] == [3, 3]


# PyIceberg 0.12 leaves its connections to the garbage collector.
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
def test_pyiceberg_and_duckdb_write_and_read_a_managed_table(lake: Lake) -> None:
    def pyiceberg(token: str) -> Any:
        delegation = {"header.X-Iceberg-Access-Delegation": "vended-credentials"}
        return load_catalog("lake", type="rest", uri=f"{lake.url}/iceberg", warehouse="lake", token=token, **delegation)

    pyiceberg(lake.admin).create_table("s.ports", schema=ROWS.schema).append(ROWS)
    with pytest.raises(ForbiddenError):
        pyiceberg(lake.reader).load_table("s.ports")
    with duck("avro", "httpfs", "iceberg") as db:
        for name, token in (("owner", lake.admin), ("reader", lake.reader)):
            db.execute(f"CREATE SECRET {name} (TYPE iceberg, TOKEN '{token}')")
            db.execute(f"ATTACH 'lake' AS {name} (TYPE iceberg, ENDPOINT '{lake.url}/iceberg', SECRET {name})")
        db.execute("INSERT INTO owner.s.ports VALUES (4, 'Lima')")
        lake.grant("ports")
        assert pyiceberg(lake.reader).load_table("s.ports").scan().to_arrow().num_rows == 4
        assert db.execute("SELECT count(*) FROM reader.s.ports").fetchall() == [(4,)]
        with pytest.raises(duckdb.Error):
            db.execute("INSERT INTO reader.s.ports VALUES (5, 'Bonn')")
    with pytest.raises(OSError, match=r"(?i)denied"):
        pyiceberg(lake.reader).load_table("s.ports").append(ROWS)
