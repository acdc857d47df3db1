"""Every error has a row in every API, and no answer tells what is inside the server."""

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
from tests.api.routes import EVERY_ROUTE, Place, furnish, send

LEAVES = sorted(leaves(), key=lambda leaf: leaf.__name__)
FINAL = {400, 404, 405, 406, 409, 422}
SECRET = "the key of the safe"


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
def test_every_leaf_has_a_row_in_the_table(api: Api) -> None:
    assert [leaf.__name__ for leaf in LEAVES if leaf not in api.errors] == []


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
@pytest.mark.parametrize("leaf", LEAVES, ids=lambda leaf: leaf.__name__)
def test_an_error_body_says_what_happened_in_the_words_of_its_api(api: Api, leaf: type[MoorageError]) -> None:
    wire = api.errors[leaf]
    error = leaf("the mast of 'Nellie' is broken", field="mast", id="x")
    body = json.loads(api.render_error(wire, error, "request-7"))
    text = json.dumps(body)
    assert 400 <= wire.status < 600
    assert wire.name in text
    assert "the mast of 'Nellie' is broken" in text
    if "advice" in body.get("error", {}):  # Moorage's own shape; the envelopes of others have no room for these
        assert body["error"]["field"] == "mast"
        assert body["error"]["request_id"] == "request-7"
        assert body["error"]["advice"] == leaf.advice.value
        assert body["error"]["details"] == {"id": "x"}


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
def test_only_what_can_never_change_is_remembered_under_a_key(api: Api) -> None:
    under_a_key = {error for route in api.routes if route.keyed for error in route.errors}
    remembered = {leaf.__name__: api.errors[leaf].status for leaf in LEAVES if leaf.is_final and leaf in under_a_key}
    assert {name: status for name, status in remembered.items() if status not in FINAL} == {}


class Broken:
    """A ledger in which everything that a route could ask breaks, with internals in the message."""

    kind = "sqlite"
    root = "x"

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(SECRET)

    async def walk(self, steps: list[Step]) -> Any:
        raise RuntimeError(SECRET)


# What a server can do is told from its routes, probes and files on local disk need no ledger.
NOT_ASKING = {"getCapabilities", "summary", "generateTemporaryPathCredentials", "getDeltaPathCredentials"}
ASKING_THE_LEDGER = [
    place for place in EVERY_ROUTE if not place.route.public and place.route.operation not in NOT_ASKING
]


@pytest.mark.parametrize("place", ASKING_THE_LEDGER, ids=str)
async def test_an_unexpected_fault_is_a_500_with_the_request_id_and_nothing_else(
    house: House, place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    await furnish(house)
    whole = house.ports.ledger
    force_setattr(house.ports, "ledger", Broken())
    try:
        with caplog.at_level(logging.ERROR):
            answer = await send(house, place.route, headers={"x-request-id": "request-7"})
    finally:
        force_setattr(house.ports, "ledger", whole)
    assert answer.status_code == 500, answer.text
    assert answer.headers["x-request-id"] == "request-7"
    assert "request-7" in answer.text or place.route.verb == "HEAD"
    assert SECRET not in answer.text
    assert "Traceback" not in answer.text
    assert SECRET in caplog.text
    error = answer.json().get("error", {}) if answer.content else {}
    advice = error.get("advice") if isinstance(error, dict) else None
    assert advice in (None, "ask_first" if place.route.mutation else "same_request")


async def test_an_unknown_address_is_refused_in_the_words_of_its_api(house: House) -> None:
    http = house.console.http
    refused(await http.get("/api/moorage/v1/nothing"), 404, "ROUTE_NOT_FOUND")
    refused(await http.get("/nothing"), 404, "ROUTE_NOT_FOUND")
    answer = await http.get("/api/2.1/unity-catalog/nothing")
    assert (answer.status_code, answer.json()["error_code"]) == (404, "NOT_FOUND")


async def test_a_verb_that_is_not_offered_is_answered_with_those_that_are(house: House) -> None:
    answer = await house.console.ask("PUT", to_catalog("x"))
    refused(answer, 405, "METHOD_NOT_ALLOWED")
    assert answer.headers["allow"] == "DELETE, GET, PATCH"


async def test_a_missing_object_does_not_repeat_what_could_be_a_script(house: House) -> None:
    answer = await house.console.get(to_catalog("<script>alert(1)</script>"))
    refused(answer, 404, "CATALOG_NOT_FOUND")
    assert answer.headers["content-type"] == "application/json"
