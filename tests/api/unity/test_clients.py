"""What each client of the Unity API gets of tables whose format or type is outside of the enums that it knows."""

from __future__ import annotations

from typing import Any

import pytest

from moorage.core.ids import SecurableId
from moorage.core.securables import Doc, TableDoc
from moorage.testing import builders as make
from tests.api.house import House, done
from tests.api.unity.unity import IN_S, Unity, external, refused

POLARS = "polars/0.57.0"
PYTHON_0_4 = "OpenAPI-Generator/0.4.1/python"
PYTHON_0_6 = "OpenAPI-Generator/0.6.0/python"
PYTHON_0_7 = "OpenAPI-Generator/0.7.0/python"
JAVA = "UnityCatalog-Java-Client/0.6.0 Java/17.0.15"
SPARK = "UnityCatalog-Java-Client/0.6.0 Spark/4.1.4 Delta/4.4.0 Java/17.0.15 Scala/2.13.17"
SPARK_0_7 = "UnityCatalog-Java-Client/0.7.0 Spark/4.1.4 Delta/4.4.0 Java/17.0.15 Scala/2.13.17"

DELTA = ("delta", "EXTERNAL", "DELTA")
NO_ICEBERG, ICEBERG = ("iceberg", "MANAGED", None), ("iceberg", "MANAGED", "ICEBERG")
NO_LANCE, LANCE = ("lance", "MANAGED", None), ("lance", "MANAGED", "LANCE")
METRIC, VIEW = ("metric", "METRIC_VIEW", None), ("view", "VIEW", None)


@pytest.fixture(autouse=True)
async def _tables(house: House, uc: Unity) -> None:
    await uc.schema()
    await uc.external("delta")
    schema = SecurableId(done(await uc.get("/schemas/lake.s"))["schema_id"])
    for name in ("iceberg", "lance"):
        location = f"file:///lakes/{name}/"
        table = make.table(schema, name, path=location, doc=Doc(location=location, table=TableDoc(format=name)))
        await make.add(house.ports.ledger, table)
    for name, kind in (("view", "VIEW"), ("metric", "METRIC_VIEW")):
        reads = {"dependencies": [{"table": {"table_full_name": "lake.s.delta"}}]}
        body = {"name": name, **IN_S, "table_type": kind, "view_definition": "x", "view_dependencies": reads}
        done(await uc.post("/tables", body))


@pytest.mark.parametrize(
    ("agent", "shown"),
    [
        pytest.param("curl/8.5", [DELTA, NO_ICEBERG, NO_LANCE, METRIC, VIEW], id="unknown"),
        pytest.param(POLARS, [DELTA, NO_ICEBERG, NO_LANCE, ("metric", "VIEW", None), VIEW], id="polars"),
        pytest.param(PYTHON_0_4, [DELTA, NO_ICEBERG, NO_LANCE], id="python-0.4"),
        pytest.param(PYTHON_0_6, [DELTA, NO_ICEBERG, NO_LANCE, METRIC, VIEW], id="python-0.6"),
        pytest.param(PYTHON_0_7, [DELTA, ICEBERG, NO_LANCE, METRIC, VIEW], id="python-0.7"),
        pytest.param(JAVA, [DELTA, ICEBERG, LANCE, METRIC, VIEW], id="java"),
        pytest.param(SPARK, [DELTA, METRIC, VIEW], id="spark"),
        pytest.param(SPARK_0_7, [DELTA, ICEBERG, METRIC, VIEW], id="spark-0.7"),
    ],
)
async def test_a_client_gets_only_values_that_it_can_decode(
    uc: Unity, agent: str, shown: list[tuple[str, str | None, str | None]]
) -> None:
    uc.http.headers["user-agent"] = agent
    for omit in ({}, {"omit_columns": "true"}):
        tables = done(await uc.get("/tables", **IN_S, **omit))["tables"]
        assert [(each["name"], each["table_type"], each["data_source_format"]) for each in tables] == shown
    for name, kind, source in shown:
        one = done(await uc.get(f"/tables/lake.s.{name}"))
        assert (one["table_type"], one["data_source_format"]) == (kind, source)


async def test_every_client_gets_the_format_in_a_field_of_its_own(uc: Unity) -> None:
    tables = done(await uc.get("/tables", **IN_S))["tables"]
    formats = {each["name"]: each["table_format"] for each in tables}
    assert formats == {"delta": "delta", "iceberg": "iceberg", "lance": "lance", "metric": None, "view": None}


@pytest.mark.parametrize("name", ["iceberg", "lance"])
async def test_the_error_for_a_table_that_spark_cannot_read_states_what_to_use(uc: Unity, name: str) -> None:
    uc.http.headers["user-agent"] = SPARK
    message = refused(await uc.get(f"/tables/lake.s.{name}"), 400, "UNIMPLEMENTED")
    assert message.startswith(f"'lake.s.{name}' is a table in the format {name.capitalize()}, which Unity's connector")


async def test_an_iceberg_table_without_metadata_is_not_shown_to_iceberg_clients(house: House, uc: Unity) -> None:
    made = await uc.external("registered", data_source_format="ICEBERG")
    assert (made["data_source_format"], made["table_format"]) == ("ICEBERG", "iceberg")
    http: Any = house.console.http
    listed = done(await http.get("/iceberg/v1/lake/namespaces/s/tables"))
    assert "registered" not in [each["name"] for each in listed["identifiers"]]
    assert (await http.get("/iceberg/v1/lake/namespaces/s/tables/registered")).status_code == 404
    refused(await uc.post("/tables", external("registered", "/lakes/other")), 409, "TABLE_ALREADY_EXISTS")
