"""Real clients against a server with authentication: each works with a token, and only on what it is granted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import lance
import lance_namespace
import lancedb
import pytest
from pyiceberg.exceptions import ForbiddenError, OAuthError, RESTError, UnauthorizedError
from unitycatalog.client import ApiClient, Configuration, GrantsApi, SchemasApi, SecurableType, TablesApi
from unitycatalog.client.exceptions import ForbiddenException, NotFoundException, UnauthorizedException
from unitycatalog.client.models import PermissionsChange, Privilege, UpdatePermissions

from moorage.client import Client
from moorage.client.errors import ClientError
from moorage.testing.server import ServerProcess
from tests.conformance.ducks import duck
from tests.conformance.guarded_lakes import READER, ROWS, WRITER, GuardedLake


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedLake]:
    with ServerProcess(tmp_path_factory.mktemp("access") / "data", flags=["--auth", "on"]) as server:
        yield GuardedLake(server)


def test_pyiceberg_writes_and_reads_with_tokens(lake: GuardedLake) -> None:
    writer = lake.iceberg(token=lake.writer)
    table = writer.create_table("sales.orders", schema=ROWS.schema)
    table.append(ROWS)
    with pytest.raises(RESTError, match="catalog 'lake' does not exist"):
        lake.iceberg(token=lake.reader)
    lake.grant("orders")
    reader = lake.iceberg(token=lake.reader)
    found = reader.load_table("sales.orders")
    assert found.scan().to_arrow().num_rows == 3
    with pytest.raises(ForbiddenError, match="MODIFY"):
        found.append(ROWS)
    with pytest.raises(ForbiddenError):
        reader.drop_table("sales.orders")
    assert writer.load_table("sales.orders").scan().to_arrow().num_rows == 3


def test_pyiceberg_logs_in_with_its_name_and_token(lake: GuardedLake) -> None:
    at = {"oauth2-server-uri": f"{lake.url}/iceberg/v1/oauth/tokens"}
    catalog = lake.iceberg(credential=f"{WRITER}:{lake.writer}", scope="catalog", **at)
    assert catalog.list_namespaces() == [("sales",)]
    with pytest.raises(OAuthError):
        lake.iceberg(credential=f"{WRITER}:{lake.writer[:-1]}", **at)
    with pytest.raises(UnauthorizedError):
        lake.iceberg(token="moor_nothing")


def test_duckdb_reads_with_a_token_and_logs_in(lake: GuardedLake) -> None:
    lake.iceberg(token=lake.writer).create_table("sales.ducks", schema=ROWS.schema).append(ROWS)
    lake.grant("ducks")
    login = f"CLIENT_ID '{READER}', CLIENT_SECRET '{lake.reader}'"
    tokens = f"OAUTH2_SERVER_URI '{lake.url}/iceberg/v1/oauth/tokens'"
    for number, options in enumerate((f"TOKEN '{lake.reader}'", f"{login}, {tokens}")):
        with duck("avro", "httpfs", "iceberg") as db:
            db.execute(f"CREATE SECRET s{number} (TYPE iceberg, {options})")
            db.execute(f"ATTACH 'lake' AS lake (TYPE iceberg, ENDPOINT '{lake.url}/iceberg', SECRET s{number})")
            assert db.execute("SELECT count(*) FROM lake.sales.ducks").fetchall() == [(3,)]


@pytest.mark.parametrize("header", ["Authorization", "x-api-key"])
def test_pylance_writes_with_a_token_and_with_an_api_key(lake: GuardedLake, header: str) -> None:
    name = f"vectors_{header.lower().replace('-', '_')}"

    def connect(token: str) -> Any:
        value = f"Bearer {token}" if header == "Authorization" else token
        return lance_namespace.connect("rest", {"uri": f"{lake.url}/lance", f"header.{header}": value})

    id = ["lake", "sales", name]
    written = lance.write_dataset(ROWS, namespace_client=connect(lake.writer), table_id=id, mode="create")
    assert written.version == 1
    with pytest.raises(Exception, match=r"(?i)not.?found|does not exist|may not"):
        lance.dataset(namespace_client=connect(lake.reader), table_id=id)
    lake.grant(name)
    assert lance.dataset(namespace_client=connect(lake.reader), table_id=id).count_rows() == 3
    with pytest.raises(Exception, match=r"(?i)denied|forbidden|may not"):
        lance.write_dataset(ROWS, namespace_client=connect(lake.reader), table_id=id, mode="append")


def test_lancedb_writes_with_a_token(lake: GuardedLake) -> None:
    headers = {"header.Authorization": f"Bearer {lake.writer}"}
    db = lancedb.connect_namespace("rest", {"uri": f"{lake.url}/lance", **headers})
    table = db.create_table("cities", ROWS, namespace_path=["lake", "sales"])
    table.add(ROWS)
    assert table.count_rows() == 6


async def test_unitys_client_lists_what_it_may_see_and_grants(lake: GuardedLake) -> None:
    lake.iceberg(token=lake.writer).create_table("sales.seen", schema=ROWS.schema)

    def client(token: str | None) -> ApiClient:
        header = {"header_name": "Authorization", "header_value": f"Bearer {token}"} if token else {}
        return ApiClient(Configuration(host=f"{lake.url}/api/2.1/unity-catalog"), **header)

    async with client(None) as unknown, client(lake.reader) as reader, client(lake.writer) as writer:
        with pytest.raises(UnauthorizedException):
            await SchemasApi(unknown).list_schemas("lake")
        listed = (await TablesApi(writer).list_tables("lake", "sales")).tables
        assert "seen" in {table.name for table in listed}
        for api in (reader, writer):
            with pytest.raises((ForbiddenException, NotFoundException)):
                await SchemasApi(api).delete_schema("lake.sales")
        change = PermissionsChange(principal=READER, add=[Privilege.SELECT], remove=[])
        update = UpdatePermissions(changes=[change])
        with pytest.raises(NotFoundException):
            await GrantsApi(reader).update(SecurableType.TABLE, "lake.sales.unseen", update)
        granted = await GrantsApi(writer).update(SecurableType.TABLE, "lake.sales.seen", update)
        assert [(each.principal, each.privileges) for each in granted.privilege_assignments] == [
            (READER, [Privilege.SELECT])
        ]


def test_the_python_client_and_its_errors(lake: GuardedLake) -> None:
    with Client(lake.url, patience_s=0) as client, pytest.raises(ClientError) as error:
        client.health()
    assert (error.value.code, error.value.status) == ("UNAUTHENTICATED", 401)
    with Client(lake.url, token=lake.reader) as client:
        assert client.health().seq > 0
        with pytest.raises(ClientError, match="needs MANAGE on the metastore"):
            client.access.create("Users", "eve")
