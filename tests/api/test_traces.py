"""Spans are exported to a collector: a small real one on a socket."""

from __future__ import annotations

import time
from typing import Any

from moorage.http import Answer, App, Call
from moorage.server.telemetry import Tracing
from tests.api.collector import Collector
from tests.unit.http.harbour import Ports, api_that, ask


async def greet(call: Call[Any, Any]) -> Answer:
    return Answer.empty()


def attributes(span: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in span.attributes}


async def test_a_request_exports_a_span_in_the_trace_of_its_client(collector: Collector) -> None:
    tracing = Tracing(collector.url)
    app = App([api_that(greet)], Ports(), trace=tracing.span)
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    await ask(app, "GET", "/harbour/ships", headers={"traceparent": parent, "X-Request-Id": "r-1"})
    await ask(app, "GET", "/nothing")
    tracing.stop()
    found, lost = collector.spans()
    assert {path for path, _ in collector.received} == {"/v1/traces"}
    assert (found.name, found.trace_id.hex()) == ("act", "0af7651916cd43dd8448eb211c80319c")
    assert attributes(found) == {
        "http.request.method": "GET",
        "http.response.status_code": 204,
        "http.route": "/harbour/ships",
        "moorage.request_id": "r-1",
    }
    assert attributes(lost)["http.response.status_code"] == 404


async def test_a_collector_that_is_down_delays_neither_requests_nor_the_stop() -> None:
    tracing = Tracing("http://127.0.0.1:9")
    app = App([api_that(greet)], Ports(), trace=tracing.span)
    assert (await ask(app, "GET", "/harbour/ships")).status_code == 204
    started = time.monotonic()
    tracing.stop()
    assert time.monotonic() - started < 10, "the exporter alone would take this long"
