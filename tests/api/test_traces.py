"""Spans are exported to a collector: a small real one on a socket."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from moorage.http import Answer, App, Call
from moorage.server.telemetry import Tracing
from tests.unit.http.harbour import Ports, api_that, ask


class Collector:
    def __init__(self) -> None:
        self.received: list[tuple[str, bytes]] = []
        received = self.received

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                received.append((self.path, self.rfile.read(int(self.headers["content-length"]))))
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the parent's name for it
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def spans(self) -> list[Any]:
        """All spans so far, as the protocol's own messages."""
        messages = [ExportTraceServiceRequest.FromString(body) for _, body in self.received]
        return [
            s for m in messages for resource in m.resource_spans for scope in resource.scope_spans for s in scope.spans
        ]

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def collector() -> Iterator[Collector]:
    started = Collector()
    yield started
    started.stop()


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
