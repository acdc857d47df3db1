"""A wire on which things go wrong as told: answers get lost, somebody in between says 503."""

import socket
import threading
from types import TracebackType
from typing import Self


class BadWire:
    """Passes each request on, except those at the head of the queue, which meet `mishaps`.

    None: the request reaches the server, its answer gets lost. Bytes: the answer of somebody in between.
    """

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._door = socket.create_server(("127.0.0.1", 0))
        self.mishaps: list[bytes | None] = []
        self.requests: list[bytes] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._door.getsockname()[1]}"

    def keys(self) -> list[str]:
        """The idempotency keys of all requests, in the order of their coming."""
        heads = [request.partition(b"\r\n\r\n")[0].decode().lower().split("\r\n") for request in self.requests]
        return [line.partition(": ")[2] for head in heads for line in head if line.startswith("idempotency-key")]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._door.shutdown(socket.SHUT_RDWR)
        self._door.close()
        self._thread.join()

    def _serve(self) -> None:
        while True:
            try:
                caller, _ = self._door.accept()
            except OSError:
                return
            with caller:
                self._pass_on(caller)

    def _pass_on(self, caller: socket.socket) -> None:
        """One request for each connection."""
        request = _whole(caller)
        self.requests.append(request)
        mishap = self.mishaps.pop(0) if self.mishaps else b""
        if mishap:
            caller.sendall(mishap)
            return
        with socket.create_connection(("127.0.0.1", self._server_port)) as server:
            server.sendall(request)
            answer = _whole(server)
        if mishap is not None:
            caller.sendall(answer)


def _whole(sender: socket.socket) -> bytes:
    message = b""
    while b"\r\n\r\n" not in message:
        message += sender.recv(65536)
    head, _, body = message.partition(b"\r\n\r\n")
    length = next((int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0)
    while len(body) < length:
        body += sender.recv(65536)
    return head + b"\r\n\r\n" + body
