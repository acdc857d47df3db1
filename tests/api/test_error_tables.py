"""Every error has a row in the table of every API, and no response reveals internals."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from msgspec.structs import force_setattr

from moorage.core.errors import MoorageError, leaves
from moorage.http import Api
from moorage.ledger.port import Step
from moorage.server.compose import APIS
from tests.api.house import House, refused, to_catalog
from tests.api.routes import OF_PRINCIPALS, Endpoint, furnish, send

LEAVES = sorted(leaves(), key=lambda leaf: leaf.__name__)
FINAL = {400, 404, 405, 406, 409, 422}
SECRET = "the key of the safe"


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
def test_every_error_has_a_row_in_the_table(api: Api) -> None:
    assert [leaf.__name__ for leaf in LEAVES if leaf not in api.errors] == []


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
@pytest.mark.parametrize("leaf", LEAVES, ids=lambda leaf: leaf.__name__)
def test_an_error_body_has_the_format_of_its_api_and_the_message(api: Api, leaf: type[MoorageError]) -> None:
    wire = api.errors[leaf]
    error = leaf("the mast of 'Nellie' is broken", field="mast", id="x")
    body = json.loads(api.render_error(wire, error, "request-7"))
    text = json.dumps(body)
    assert 400 <= wire.status < 600
    assert wire.name in text
    assert "the mast of 'Nellie' is broken" in text
    if "advice" in body.get("error", {}):  # Moorage's own format; those of other APIs lack these fields
        assert body["error"]["field"] == "mast"
        assert body["error"]["request_id"] == "request-7"
        assert body["error"]["advice"] == leaf.advice.value
        assert body["error"]["details"] == {"id": "x"}


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
def test_errors_that_are_recorded_under_a_key_have_a_final_status(api: Api) -> None:
    under_a_key = {error for route in api.routes if route.keyed for error in route.errors}
    recorded = {leaf.__name__: api.errors[leaf].status for leaf in LEAVES if leaf.is_final and leaf in under_a_key}
    assert {name: status for name, status in recorded.items() if status not in FINAL} == {}


class Broken:
    """A ledger in which every call fails, with internals in the message."""

    kind = "sqlite"
    root = "x"

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(SECRET)

    async def walk(self, steps: list[Step], **_: Any) -> Any:
        raise RuntimeError(SECRET)


# Capabilities are derived from the routes. Probes and files on local disk need no ledger.
WITHOUT_LEDGER = {"getCapabilities", "summary", "generateTemporaryPathCredentials", "getDeltaPathCredentials"}
WITH_LEDGER = [
    endpoint
    for endpoint in OF_PRINCIPALS
    if not endpoint.route.public and endpoint.route.operation not in WITHOUT_LEDGER
]


@pytest.mark.parametrize("endpoint", WITH_LEDGER, ids=str)
async def test_an_unexpected_fault_is_a_500_with_the_request_id_and_nothing_else(
    house: House, endpoint: Endpoint, caplog: pytest.LogCaptureFixture
) -> None:
    await furnish(house)
    whole = house.ports.ledger
    force_setattr(house.ports, "ledger", Broken())
    try:
        with caplog.at_level(logging.ERROR):
            answer = await send(house, endpoint.route, headers={"x-request-id": "request-7"})
    finally:
        force_setattr(house.ports, "ledger", whole)
    assert answer.status_code == 500, answer.text
    assert answer.headers["x-request-id"] == "request-7"
    assert "request-7" in answer.text or endpoint.route.verb == "HEAD"
    assert SECRET not in answer.text
    assert "Traceback" not in answer.text
    assert SECRET in caplog.text
    error = answer.json().get("error", {}) if answer.content else {}
    advice = error.get("advice") if isinstance(error, dict) else None
    assert advice in (None, "ask_first" if endpoint.route.mutation else "same_request")


async def test_an_unknown_path_is_refused_in_the_format_of_its_api(house: House) -> None:
    http = house.console.http
    refused(await http.get("/api/moorage/v1/nothing"), 404, "ROUTE_NOT_FOUND")
    refused(await http.get("/nothing"), 404, "ROUTE_NOT_FOUND")
    answer = await http.get("/api/2.1/unity-catalog/nothing")
    assert (answer.status_code, answer.json()["error_code"]) == (404, "NOT_FOUND")


async def test_an_unsupported_method_is_refused_with_the_supported_ones(house: House) -> None:
    answer = await house.console.ask("PUT", to_catalog("x"))
    refused(answer, 405, "METHOD_NOT_ALLOWED")
    assert answer.headers["allow"] == "DELETE, GET, PATCH"


async def test_an_error_that_quotes_a_script_is_json(house: House) -> None:
    answer = await house.console.get(to_catalog("<script>alert(1)</script>"))
    refused(answer, 404, "CATALOG_NOT_FOUND")
    assert answer.headers["content-type"] == "application/json"
