"""Lets pages of other origins use the APIs from a browser (CORS)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from moorage.http.answers import Answer, Header
from moorage.http.exchanges import Exchange

_METHODS: Final = b"GET, HEAD, POST, PUT, PATCH, DELETE"
_EXPOSED: Final = b"x-request-id, retry-after, etag, delta-table-version"
_MAX_AGE: Final = b"600"


class Cors:
    """The origins that are allowed. A browser sends no credentials by itself: a page must set the token."""

    def __init__(self, origins: Iterable[str]) -> None:
        self._origins = frozenset(origin.encode() for origin in origins)

    def preflight(self, exchange: Exchange) -> Answer | None:
        """The answer to a browser that asks what a page may send; None if this is another request."""
        headers = exchange.headers
        if exchange.verb != "OPTIONS" or headers.raw(b"access-control-request-method") is None:
            return None
        if headers.raw(b"origin") not in self._origins:
            return None
        return Answer.empty(
            headers=(
                (b"access-control-allow-methods", _METHODS),
                (b"access-control-allow-headers", headers.raw(b"access-control-request-headers") or b"authorization"),
                (b"access-control-max-age", _MAX_AGE),
            )
        )

    def allow(self, exchange: Exchange, answer: Answer) -> Answer:
        """The answer, readable by the page that asked for it if its origin is allowed."""
        headers: list[Header] = [*answer.headers, (b"vary", b"origin")]
        origin = exchange.headers.raw(b"origin")
        if origin is not None and origin in self._origins:
            headers += [(b"access-control-allow-origin", origin), (b"access-control-expose-headers", _EXPOSED)]
        return replace(answer, headers=headers)
