"""The configuration that a client requests first."""

from __future__ import annotations

from moorage.api.iceberg import iceberg
from tests.api.house import House
from tests.api.iceberg.lake import V1, Lake, refused


async def test_the_endpoints_are_exactly_the_operations_of_this_server(lake: Lake) -> None:
    config = (await lake.house.console.http.get(f"{V1}/config", params={"warehouse": "LAKE"})).json()
    assert config["overrides"] == {"prefix": "lake", "namespace-separator": "%1F"}
    assert config["idempotency-key-lifetime"] == "PT86400S"
    # Without the configuration itself, which has no prefix, and signRequest, which needs an object store.
    assert len(config["endpoints"]) == len(iceberg.routes) - 2
    assert not any("sign" in endpoint for endpoint in config["endpoints"])
    assert "POST /v1/{prefix}/transactions/commit" in config["endpoints"]
    assert "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}/plan/{plan-id}" in config["endpoints"]


async def test_a_prefix_can_be_inserted_into_a_path_without_escaping(house: House) -> None:
    await house.console.make("my lake/é")
    http = house.console.http
    prefix = (await http.get(f"{V1}/config")).json()["overrides"]["prefix"]
    assert prefix == "my%20lake%2F%C3%A9"
    assert (await http.get(f"{V1}/{prefix}/namespaces")).json() == {"namespaces": [], "next-page-token": None}


async def test_without_a_warehouse_the_oldest_catalog_is_used(house: House) -> None:
    http = house.console.http
    refused(await http.get(f"{V1}/config"), 400, "BadRequestException", "warehouse")
    for name in ("lake", "bay"):
        await house.console.make(name)
    assert (await http.get(f"{V1}/config")).json()["overrides"]["prefix"] == "lake"
    refused(await http.get(f"{V1}/config", params={"warehouse": "sea"}), 404, "NoSuchWarehouseException")
    refused(await http.get(f"{V1}/sea/namespaces"), 404, "NoSuchWarehouseException")


async def test_the_same_api_is_served_below_unitys_prefix(lake: Lake) -> None:
    http, below = lake.house.console.http, f"/api/2.1/unity-catalog{V1}"
    assert (await http.get(f"{below}/config")).json() == (await http.get(f"{V1}/config")).json()
    assert (await http.post(f"{below}/lake/namespaces", json={"namespace": ["deep"]})).status_code == 200
    listed = await http.get(f"{V1}/lake/namespaces")
    assert ["deep"] in listed.json()["namespaces"]
    refused(await http.get(f"{below}/lake/nothing"), 404, "NotFoundException")
    assert (await http.post(f"{below}/oauth/tokens", content="")).json()["error"] == "invalid_request"


async def test_a_path_that_does_not_exist_is_refused_with_icebergs_error_model(lake: Lake) -> None:
    refused(await lake.ask("GET", "/nothing"), 404, "NotFoundException")
    refused(await lake.ask("PUT", "/namespaces"), 405, "UnsupportedOperationException")
