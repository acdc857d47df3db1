"""A collector of traces: a small real one on a socket."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


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
