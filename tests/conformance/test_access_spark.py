"""Spark against a server with authentication: Iceberg's catalog, Delta's clients, and `format("moorage")`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from moorage.client import Client
from moorage.client.spark import session
from moorage.testing.server import ServerProcess
from tests.conformance.delta_java import CATALOG, SCHEMA, JavaClients, JavaTable
from tests.conformance.guarded_lakes import READER, WRITER, GuardedLake
from tests.conformance.lakes import attach_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("spark"), pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("access-spark") / "data", flags=["--auth", "on"]) as server:
        yield server


@pytest.fixture(scope="module")
def lake(server: ServerProcess) -> GuardedLake:
    return GuardedLake(server)


def test_iceberg_tables_with_a_token_and_with_a_login(
    spark: SparkSession, server: ServerProcess, lake: GuardedLake
) -> None:
    attach_spark(spark, server, "by_token", token=lake.writer)
    spark.sql("CREATE TABLE by_token.sales.orders (id BIGINT) USING iceberg")
    spark.sql("INSERT INTO by_token.sales.orders VALUES (1), (2)")
    lake.grant("orders")
    attach_spark(spark, server, "by_reader", token=lake.reader)
    assert spark.table("by_reader.sales.orders").count() == 2
    with pytest.raises(Exception, match="needs MODIFY"):
        spark.sql("INSERT INTO by_reader.sales.orders VALUES (3)")
    login = {"credential": f"{WRITER}:{lake.writer}", "oauth2-server-uri": f"{lake.url}/iceberg/v1/oauth/tokens"}
    attach_spark(spark, server, "by_login", scope="catalog", **login)
    spark.sql("INSERT INTO by_login.sales.orders VALUES (3)")
    assert spark.table("by_reader.sales.orders").count() == 3
    attach_spark(spark, server, "by_nobody")
    with pytest.raises(Exception, match="requires a token"):
        spark.table("by_nobody.sales.orders").count()


def test_delta_and_lance_tables_with_a_token(spark: SparkSession, lake: GuardedLake) -> None:
    rows = spark.createDataFrame([(1, "Oslo"), (2, "Rome")], "id long, city string")
    for kind in ("delta", "lance"):
        name = f"lake.sales.{kind}_cities"
        options = {"url": lake.url, "tableFormat": kind}
        rows.write.format("moorage").options(**options, token=lake.writer).mode("append").save(name)
        reader = spark.read.format("moorage").options(**options, token=lake.reader)
        with pytest.raises(Exception, match=r"does not exist|may not browse"):
            reader.load(name).count()
        lake.grant(f"{kind}_cities")
        assert reader.load(name).count() == 2
        # pylance logs that the server denied the commit, and raises that its outcome is unknown.
        with pytest.raises(Exception, match=r"needs MODIFY|the commit may or may not have been applied"):
            rows.write.format("moorage").options(**options, token=lake.reader).mode("append").save(name)
        assert reader.load(name).count() == 2
        with pytest.raises(Exception, match="requires a token"):
            spark.read.format("moorage").options(**options).load(name).count()


@pytest.fixture(scope="module")
def sea(lake: GuardedLake) -> None:
    """The schema of Delta's Java clients, in which the writer may create tables."""
    with Client(lake.url, token=lake.admin) as client:
        client.namespaces.create(CATALOG, [SCHEMA])
        client.access.change_grants("schema", f"{CATALOG}.{SCHEMA}", WRITER, add=["USE SCHEMA", "CREATE TABLE"])
        client.access.change_grants("catalog", CATALOG, READER, add=["USE CATALOG", "USE SCHEMA"])


@pytest.mark.usefixtures("sea")
@pytest.mark.parametrize("family", ["preview", "v1"])
@pytest.mark.parametrize("login", [False, True])
def test_the_kernel_with_a_token_and_with_a_login(
    spark: SparkSession, lake: GuardedLake, family: str, *, login: bool
) -> None:
    by_token = {"type": "static", "token": lake.writer}
    uri = f"{lake.url}/iceberg/v1/oauth/tokens"
    by_login = {"type": "oauth", "oauth.uri": uri, "oauth.clientId": WRITER, "oauth.clientSecret": lake.writer}
    clients = JavaClients(spark, lake.url, by_login if login else by_token)
    table, properties = clients.stage(family, f"{family}_{login}".lower())
    assert table.create(properties) == 0
    assert table.append(table.snapshot(), 1, 2) == 1
    assert table.rows() == [1, 2]

    others = JavaClients(spark, lake.url, {"type": "static", "token": lake.reader})
    rest = others.older if family == "preview" else others.newer
    seen = JavaTable(others, rest, table.name, table.id, table.location)
    with pytest.raises(Exception, match="needs SELECT"):
        seen.snapshot()
    with Client(lake.url, token=lake.admin) as client:
        client.access.change_grants("table", f"{CATALOG}.{SCHEMA}.{table.name}", READER, add=["SELECT"])
    assert seen.rows() == [1, 2]
    with pytest.raises(Exception, match="needs MODIFY"):
        seen.append(seen.snapshot(), 3)
    assert table.rows() == [1, 2]
    forged = JavaClients(spark, lake.url, {"type": "static", "token": f"{lake.writer[:-1]}?"})
    with pytest.raises(Exception, match="not a token of this server"):
        forged.stage(family, "more")


def test_a_session_has_the_catalogs_of_its_token(spark: SparkSession, lake: GuardedLake) -> None:
    with Client(lake.url, token=lake.admin) as client:
        client.catalogs.create("guarded")
        client.catalogs.create("hidden")
        client.namespaces.create("guarded", ["sea"])
        client.access.change_grants("catalog", "guarded", READER, add=["USE CATALOG", "USE SCHEMA", "CREATE TABLE"])
    made = session(lake.url, token=lake.reader)
    assert made.conf.get("spark.sql.catalog.hidden", None) is None
    made.sql("CREATE TABLE guarded.sea.boats AS SELECT 1L AS id")
    assert made.table("guarded.sea.boats").count() == 1
    made.range(3).write.format("moorage").mode("append").save("guarded.sea.ports")
    assert made.read.format("moorage").load("guarded.sea.ports").count() == 3
