"""The audit: what principals did, and what they were refused."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from moorage.client.answers import Page
from moorage.client.transport import API, Transport


class AuditLine(msgspec.Struct, frozen=True, kw_only=True):
    """Equal requests of a principal within about a second."""

    principal: str | None = None
    api: str
    operation: str
    object: str | None = None
    address: str
    outcome: str
    reason: str | None = None
    requests: int
    first_at_ms: int
    last_at_ms: int


class Audit:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(
        self,
        *,
        since_ms: int = 0,
        until_ms: int = 0,
        principal: str = "",
        api: str = "",
        operation: str = "",
        below: str = "",
        outcome: str = "",
    ) -> Iterator[AuditLine]:
        """The lines that agree with all given values, the oldest first. For administrators.

        `below` is the full name of an object. It selects that object and everything in it.
        """
        query = {
            "since_ms": since_ms,
            "until_ms": until_ms,
            "principal": principal,
            "api": api,
            "operation": operation,
            "object": below,
            "outcome": outcome,
        }
        return self._transport.list(f"{API}/audit", Page[AuditLine], query)
