"""A client that sends exactly the given bytes, because HTTP libraries refuse to send malformed requests."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return msgspec.json.decode(self.body)


class RawConnection:
    """One TCP connection. Replies are read in the order in which they arrive."""

    def __init__(self, port: int, *, timeout_seconds: float = 60.0) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=timeout_seconds)
        self._file = self._socket.makefile("rb")

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def reply(self) -> Reply:
        """Return the next complete reply. Raises EOFError if the server closed the connection instead."""
        line = self._file.readline()
        if not line:
            raise EOFError("the server closed the connection")
        status = int(line.split()[1])
        headers = dict(self._headers())
        if headers.get("transfer-encoding") == "chunked":
            return Reply(status, headers, b"".join(self._chunks()))
        return Reply(status, headers, self._file.read(int(headers.get("content-length", "0"))))

    def head(self) -> Reply:
        """Return status and headers only, for a body that does not end."""
        status = int(self._file.readline().split()[1])
        return Reply(status, dict(self._headers()), b"")

    def chunk(self) -> bytes:
        """Return the next chunk of a chunked body. It is empty at the end of the body."""
        size = int(self._file.readline(), 16)
        data = self._file.read(size)
        self._file.readline()
        return data

    def is_closed(self) -> bool:
        try:
            return self._file.read(1) == b""
        except ConnectionError:
            return True

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._file.close()
            self._socket.close()

    def _headers(self) -> Iterator[tuple[str, str]]:
        while (line := self._file.readline().strip()) != b"":
            name, _, value = line.decode("latin-1").partition(":")
            yield name.lower(), value.strip()

    def _chunks(self) -> Iterator[bytes]:
        while data := self.chunk():
            yield data

    def __enter__(self) -> RawConnection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
