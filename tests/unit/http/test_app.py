from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from datetime import date
from typing import Any

import pytest

from moorage.core.errors import MoorageError, NameTaken, Unavailable
from moorage.http import Answer, Call, Deprecation, Example, Limits, Wire
from moorage.http.app import CLIENT_GONE
from moorage.http.exchanges import Exchange
from tests.unit.http.harbour import Ship, api_that, app_of, ask, new_api


async def greet(call: Call[Any, Any]) -> Answer:
    return Answer.json({"hello": call.caller.name, "id": call.request_id})


async def test_an_answer_carries_its_request_id() -> None:
    reply = await ask(app_of(api_that(greet)), "GET", "/harbour/ships")
    assert reply.headers["x-request-id"] == reply.json()["id"]


async def test_the_clients_request_id_is_kept() -> None:
    reply = await ask(app_of(api_that(greet)), "GET", "/harbour/ships", headers={"X-Request-Id": "abc-1.2:3_4"})
    assert reply.headers["x-request-id"] == "abc-1.2:3_4"


@pytest.mark.parametrize("given", ["", "a b", "x" * 129, 'a"b', "a\\nb", "ä".encode()])
async def test_a_request_id_that_is_unfit_for_a_log_line_is_replaced(given: str | bytes) -> None:
    reply = await ask(app_of(api_that(greet)), "GET", "/harbour/ships", headers={"X-Request-Id": given})
    assert reply.headers["x-request-id"] not in ("", given)
    assert reply.headers["x-request-id"].isascii()


async def test_an_unknown_path_is_refused_in_the_error_format_of_the_api_with_its_prefix() -> None:
    def shout(wire: Wire, error: MoorageError, request_id: str) -> bytes:
        return f'"{wire.name}!"'.encode()

    loud = new_api("loud", "/loud", render_error=shout)
    app = app_of(api_that(greet), loud)
    assert (await ask(app, "GET", "/loud/nothing")).json() == "ROUTE_NOT_FOUND!"
    for path in ("/harbour/nothing", "/elsewhere", "/louder"):
        reply = await ask(app, "GET", path)
        assert (reply.status_code, reply.json()["error"]["code"]) == (404, "ROUTE_NOT_FOUND")


async def test_an_api_with_an_incomplete_error_table_is_not_started() -> None:
    with pytest.raises(LookupError, match="has no row in this API's error table"):
        app_of(new_api(errors={NameTaken: Wire(409, "NAME_TAKEN")}))


async def test_a_wrong_verb_is_refused_with_the_allowed_ones() -> None:
    reply = await ask(app_of(api_that(greet)), "DELETE", "/harbour/ships")
    assert (reply.status_code, reply.headers["allow"]) == (405, "GET")


async def test_head_is_refused_unless_a_route_declares_it() -> None:
    assert (await ask(app_of(api_that(greet)), "HEAD", "/harbour/ships")).status_code == 405
    assert (await ask(app_of(api_that(greet, verb="head")), "HEAD", "/harbour/ships")).status_code == 200


async def test_an_error_carries_code_message_field_advice_and_details() -> None:
    async def collide(call: Call[Any, Any]) -> Answer:
        raise NameTaken("ship Esmeralda exists", field="name", other="01")

    reply = await ask(app_of(api_that(collide)), "GET", "/harbour/ships", headers={"X-Request-Id": "r1"})
    assert reply.status_code == 409
    assert reply.json() == {
        "error": {
            "code": "NAME_TAKEN",
            "message": "ship Esmeralda exists",
            "field": "name",
            "advice": "after_refresh",
            "request_id": "r1",
            "details": {"other": "01"},
        }
    }


async def test_an_unexpected_error_reveals_no_internals_to_the_client(caplog: pytest.LogCaptureFixture) -> None:
    async def fail(call: Call[Any, Any]) -> Answer:
        raise ZeroDivisionError("the password is swordfish")

    with caplog.at_level(logging.ERROR):
        reply = await ask(app_of(api_that(fail)), "GET", "/harbour/ships")
    assert (reply.status_code, reply.json()["error"]["code"]) == (500, "INTERNAL_ERROR")
    assert "swordfish" not in reply.text
    assert reply.headers["x-request-id"] in reply.json()["error"]["message"]
    assert "swordfish" in caplog.text


async def test_after_an_unexpected_error_a_writer_is_advised_to_check_the_outcome() -> None:
    async def fail(call: Call[Any, Any]) -> Answer:
        raise ZeroDivisionError

    reading = await ask(app_of(api_that(fail)), "GET", "/harbour/ships")
    writing = await ask(app_of(api_that(fail, verb="post")), "POST", "/harbour/ships")
    assert reading.json()["error"]["advice"] == "same_request"
    assert writing.json()["error"]["advice"] == "ask_first"


async def test_a_refused_caller_never_reaches_the_handler() -> None:
    reached = []

    async def reach(call: Call[Any, Any]) -> Answer:
        reached.append(call)
        return Answer.empty()

    reply = await ask(app_of(api_that(reach)), "GET", "/harbour/ships", headers={"Authorization": "Bearer nobody"})
    assert (reply.status_code, reply.headers["www-authenticate"], reached) == (401, "Bearer", [])


async def test_a_public_route_does_not_authenticate_its_caller() -> None:
    reply = await ask(
        app_of(api_that(greet, public=True)), "GET", "/harbour/ships", headers={"Authorization": "Bearer nobody"}
    )
    assert reply.status_code == 200


async def test_unavailable_states_when_to_retry() -> None:
    async def full(call: Call[Any, Any]) -> Answer:
        raise Unavailable("no berth is free", retry_after_seconds=7)

    reply = await ask(app_of(api_that(full)), "GET", "/harbour/ships")
    assert (reply.status_code, reply.headers["retry-after"]) == (503, "7")


async def test_a_deprecated_operation_sends_its_deprecation_headers() -> None:
    deprecation = Deprecation(
        since=date(2026, 11, 1), sunset=date(2027, 5, 1), replaced_by="/v2/ships", note="Use version 2."
    )
    reply = await ask(app_of(api_that(greet, deprecated=deprecation)), "GET", "/harbour/ships")
    assert reply.headers["sunset"] == "Sat, 01 May 2027 00:00:00 GMT"
    assert reply.headers["deprecation"].startswith("@")
    assert reply.headers["link"] == '</v2/ships>; rel="successor-version"'


async def test_an_optional_body_may_be_left_out() -> None:
    async def body_of(call: Call[Any, Any]) -> Answer:
        return Answer.json(call.body)

    example = Example(body={})
    required = app_of(api_that(body_of, verb="post", body=Options, example=example))
    optional = app_of(api_that(body_of, verb="post", body=Options, body_required=False, example=example))
    assert (await ask(required, "POST", "/harbour/ships")).status_code == 400
    assert (await ask(optional, "POST", "/harbour/ships")).json() == {"name": "none", "flag": None}


class Options(Ship, frozen=True, kw_only=True):
    name: str = "none"


async def test_an_idempotency_key_is_read_only_by_keyed_operations() -> None:
    async def key_of(call: Call[Any, Any]) -> Answer:
        return Answer.json(call.key)

    async def asked(key: str, *, keyed: bool) -> tuple[int, Any]:
        app = app_of(api_that(key_of, verb="post", keyed=keyed))
        reply = await ask(app, "POST", "/harbour/ships", headers={"Idempotency-Key": key})
        return reply.status_code, reply.json()

    assert await asked("k", keyed=True) == (200, "k")
    assert (await asked("x" * 256, keyed=True))[0] == 400
    assert await asked("x" * 256, keyed=False) == (200, None)


async def test_a_body_over_the_limit_is_refused() -> None:
    app = app_of(api_that(greet, verb="post"), limits=Limits(body_bytes=10))
    assert (await ask(app, "POST", "/harbour/ships", content=b"x" * 10)).status_code == 200
    assert (await ask(app, "POST", "/harbour/ships", content=b"x" * 11)).status_code == 413

    async def trickle() -> AsyncIterator[bytes]:
        for _ in range(11):
            yield b"x"

    assert (await ask(app, "POST", "/harbour/ships", content=trickle())).status_code == 413


async def test_a_patient_operation_may_take_longer_than_the_limit() -> None:
    async def wait(call: Call[Any, Any]) -> Answer:
        await asyncio.sleep(0.1)
        return Answer.empty()

    limits = Limits(handle_seconds=0.02)
    assert (await ask(app_of(api_that(wait), limits=limits), "GET", "/harbour/ships")).status_code == 503
    assert (await ask(app_of(api_that(wait, patient=True), limits=limits), "GET", "/harbour/ships")).status_code == 204


async def test_a_stop_ends_waiting_requests_and_lets_the_others_finish() -> None:
    release, arrived = asyncio.Event(), asyncio.Semaphore(0)

    async def wait(call: Call[Any, Any]) -> Answer:
        arrived.release()
        await release.wait()
        return Answer.empty()

    app = app_of(api_that(wait), api_that(wait, patient=True, path="/news", operation="news"))
    working = asyncio.create_task(ask(app, "GET", "/harbour/ships"))
    listening = asyncio.create_task(ask(app, "GET", "/harbour/news"))
    await arrived.acquire()
    await arrived.acquire()
    draining = asyncio.create_task(app.in_flight.drain(10))
    assert (await listening).status_code == 503
    assert not draining.done()
    release.set()
    assert (await working).status_code == 204
    assert await draining
    assert (await ask(app, "GET", "/harbour/news")).status_code == 503


async def test_every_exchange_is_observed_with_its_outcome() -> None:
    seen: list[Exchange] = []
    app = app_of(api_that(greet), observe=seen.append)
    await ask(app, "GET", "/harbour/ships")
    await ask(app, "GET", "/nothing")
    assert [(each.status, each.route.operation if each.route else None) for each in seen] == [
        (200, "act"),
        (404, None),
    ]
    assert all(each.seconds > 0 for each in seen)


async def test_a_client_that_disconnects_is_recorded_as_gone() -> None:
    seen: list[Exchange] = []
    app = app_of(api_that(greet, verb="post"), observe=seen.append)

    async def partial_body() -> AsyncIterator[bytes]:
        yield b"x"
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        await ask(app, "POST", "/harbour/ships", content=partial_body())
    assert [each.status for each in seen] == [CLIENT_GONE]
