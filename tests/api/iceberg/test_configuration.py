"""What a client is told first."""

from __future__ import annotations

from moorage.api.iceberg import iceberg
from tests.api.house import House
from tests.api.iceberg.lake import V1, Lake, refused


async def test_every_operation_is_advertised_and_nothing_else(lake: Lake) -> None:
    config = (await lake.house.console.http.get(f"{V1}/config", params={"warehouse": "LAKE"})).json()
    assert config["overrides"] == {"prefix": "lake", "namespace-separator": "%1F"}
    assert config["idempotency-key-lifetime"] == "PT86400S"
    # The configuration has no prefix, and nothing can be signed.
    assert len(config["endpoints"]) == len(iceberg.routes) - 2
    assert not any("sign" in endpoint for endpoint in config["endpoints"])
    assert "POST /v1/{prefix}/transactions/commit" in config["endpoints"]
    assert "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}/plan/{plan-id}" in config["endpoints"]


async def test_a_prefix_can_be_put_into_an_address_as_it_is(house: House) -> None:
    await house.console.make("my lake/é")
    http = house.console.http
    prefix = (await http.get(f"{V1}/config")).json()["overrides"]["prefix"]
    assert prefix == "my%20lake%2F%C3%A9"
    assert (await http.get(f"{V1}/{prefix}/namespaces")).json() == {"namespaces": [], "next-page-token": None}


async def test_the_warehouse_may_be_left_out_only_where_there_is_one(lake: Lake) -> None:
    http = lake.house.console.http
    assert (await http.get(f"{V1}/config")).json()["overrides"]["prefix"] == "lake"
    await lake.house.console.make("pond")
    refused(await http.get(f"{V1}/config"), 400, "BadRequestException", "warehouse")
    refused(await http.get(f"{V1}/config", params={"warehouse": "sea"}), 404, "NoSuchWarehouseException")
    refused(await http.get(f"{V1}/sea/namespaces"), 404, "NoSuchWarehouseException")


async def test_an_address_that_does_not_exist_is_refused_in_icebergs_words(lake: Lake) -> None:
    refused(await lake.ask("GET", "/nothing"), 404, "NotFoundException")
    refused(await lake.ask("PUT", "/namespaces"), 405, "UnsupportedOperationException")
