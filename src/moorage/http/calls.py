"""The value that a handler receives."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from functools import lru_cache
from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec

from moorage.core.callers import Caller
from moorage.core.errors import InvalidInput

if TYPE_CHECKING:
    from moorage.http.routes import Route

B = TypeVar("B")
Q = TypeVar("Q")

current_request_id: ContextVar[str] = ContextVar("moorage_request_id", default="")
"""Lets log lines written below the handler carry the request id."""

_sorted_json = msgspec.json.Encoder(order="sorted", enc_hook=str).encode

_KEY_LIMIT = 255


class NoBody(msgspec.Struct, frozen=True):
    """The body of an operation that takes none. A body that a client sends anyway is read and discarded."""


class NoQuery(msgspec.Struct, frozen=True):
    """The query of an operation that takes none."""


NO_BODY = NoBody()
NO_QUERY = NoQuery()


@lru_cache(maxsize=256)
def _raw_name(name: str) -> bytes:
    return name.lower().encode("latin-1")


class Headers(msgspec.Struct, frozen=True):
    """The request's headers by lower-case name. If a header is repeated, the last value is used."""

    by_name: dict[bytes, bytes]

    def raw(self, name: bytes) -> bytes | None:
        return self.by_name.get(name)

    def get(self, name: str) -> str | None:
        value = self.by_name.get(_raw_name(name))
        return None if value is None else value.decode("latin-1")


def idempotency_key(headers: Headers) -> str | None:
    """The client's idempotency key: a retry with the same key returns the first response."""
    value = headers.raw(b"idempotency-key")
    if value is None:
        return None
    # isprintable() is false for control characters, which a header may carry as raw bytes.
    text = value.decode("latin-1")
    if not text or len(text) > _KEY_LIMIT or not (text.isascii() and text.isprintable()):
        raise InvalidInput(
            f"Idempotency-Key must be 1 to {_KEY_LIMIT} printable ASCII characters", field="Idempotency-Key"
        )
    return text


class Call(msgspec.Struct, Generic[B, Q], frozen=True, kw_only=True):
    """One validated request: the caller is authenticated, body and query have the types that the operation declares.

    `key` is the client's idempotency key, on operations that honour one. `path` is the path as it was sent, because
    some clients encode it in their own way. `address` is the IP address of the client. `authenticate` authenticates
    the caller again.
    """

    route: Route
    caller: Caller
    request_id: str
    params: dict[str, str]
    query: Q
    body: B
    raw_body: bytes
    headers: Headers
    key: str | None = None
    path: bytes = b""
    address: str = ""
    authenticate: Callable[[], Awaitable[Caller]] | None = None

    def header(self, name: str) -> str | None:
        return self.headers.get(name)

    def fingerprint(self) -> str:
        """A digest that is equal for every retry of this request, whatever the order of its JSON keys."""
        digest = hashlib.blake2b(digest_size=32)
        for part in (self.route.api, self.route.operation, self.params, self.query):
            digest.update(_sorted_json(part))
            digest.update(b"\n")
        digest.update(_canonical(self.raw_body))
        return digest.hexdigest()


def _canonical(raw_body: bytes) -> bytes:
    """The complete body, including fields that this server does not know."""
    try:
        return _sorted_json(msgspec.json.decode(raw_body)) if raw_body else b""
    except (msgspec.DecodeError, ValueError, RecursionError):
        return raw_body
