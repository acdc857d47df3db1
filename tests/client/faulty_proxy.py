"""A proxy that injects faults: responses are lost, or an intermediary answers with an error."""

import socket
import threading
from types import TracebackType
from typing import Self


class FaultyProxy:
    """Forwards requests. Each of the next requests consumes one of `faults`, as long as there are any.

    None: the request reaches the server, and the response is lost. Bytes: the proxy sends these bytes as the
    response, and the request does not reach the server.
    """

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.faults: list[bytes | None] = []
        self.requests: list[bytes] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def keys(self) -> list[str]:
        """The idempotency keys of all requests, in order of arrival."""
        heads = [request.partition(b"\r\n\r\n")[0].decode().lower().split("\r\n") for request in self.requests]
        return [line.partition(": ")[2] for head in heads for line in head if line.startswith("idempotency-key")]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with client:
                self._forward(client)

    def _forward(self, client: socket.socket) -> None:
        """Handle one connection, which carries one request."""
        request = _read_message(client)
        self.requests.append(request)
        fault = self.faults.pop(0) if self.faults else b""
        if fault:
            client.sendall(fault)
            return
        with socket.create_connection(("127.0.0.1", self._server_port)) as server:
            server.sendall(request)
            response = _read_message(server)
        if fault is not None:
            client.sendall(response)


def _read_message(sender: socket.socket) -> bytes:
    message = b""
    while b"\r\n\r\n" not in message:
        message += sender.recv(65536)
    head, _, body = message.partition(b"\r\n\r\n")
    length = next((int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0)
    while len(body) < length:
        body += sender.recv(65536)
    return head + b"\r\n\r\n" + body
