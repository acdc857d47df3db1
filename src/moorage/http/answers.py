"""The value that a handler returns."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec

Header = tuple[bytes, bytes]

JSON: Header = (b"content-type", b"application/json")
NO_STORE: Header = (b"cache-control", b"no-store")
"""For responses with credentials: no cache may keep them."""

_encode = msgspec.json.Encoder().encode


class Answer(msgspec.Struct, frozen=True):
    """A status, headers, and either a body or a stream of chunks.

    `length` is the number of bytes in a stream, or in the body that a HEAD request does not get. A stream without one
    is sent in chunks. A stream that is `endless` may end at any time, and the client then continues with a new request.
    Every other stream is a document: if it cannot be completed, the connection is cut, because the client would take a
    shorter document for the whole one.
    """

    status: int
    body: bytes = b""
    headers: Sequence[Header] = ()
    stream_of: AsyncIterator[bytes] | None = None
    length: int | None = None
    endless: bool = False

    @classmethod
    def json(cls, value: Any, status: int = 200, headers: Sequence[Header] = ()) -> Answer:
        return cls(status, _encode(value), (JSON, *headers))

    @classmethod
    def empty(cls, status: int = 204, headers: Sequence[Header] = ()) -> Answer:
        return cls(status, b"", headers)

    @classmethod
    def text(cls, body: bytes, content_type: str, status: int = 200) -> Answer:
        return cls(status, body, ((b"content-type", content_type.encode()),))

    @classmethod
    def stream(cls, chunks: AsyncIterator[bytes], content_type: str, *, endless: bool = False) -> Answer:
        """Send each chunk as it is produced. The iterator is closed when the client disconnects or the server stops."""
        headers = ((b"content-type", content_type.encode()), NO_STORE)
        return cls(200, b"", headers, stream_of=chunks, endless=endless)
