"""What recipients read: the lines of the audit. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from moorage.core.ids import SecurableId


class Access(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One kind of request of a recipient. Requests that agree in all of this are counted together."""

    recipient: SecurableId
    operation: str
    share: str | None = None
    table: str | None = None
    """As the recipient sees it: schema.table."""
    table_id: SecurableId | None = None
    version: int | None = None
    address: str = ""
    """The IP address that the requests came from."""
    refusal: str | None = None
    """Why the requests were refused; None if they were answered."""


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """How many requests of one kind there were, and what they read."""

    requests: int
    files: int
    bytes: int
    """For a query the size of the files that it listed, for a file the bytes that were sent."""
    first_at_ms: int
    last_at_ms: int

    def plus(self, other: Tally) -> Tally:
        return Tally(
            requests=self.requests + other.requests,
            files=self.files + other.files,
            bytes=self.bytes + other.bytes,
            first_at_ms=min(self.first_at_ms, other.first_at_ms),
            last_at_ms=max(self.last_at_ms, other.last_at_ms),
        )


class AccessLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the audit."""

    access: Access
    tally: Tally


Tallies = dict[Access, Tally]
MAX_PENDING: Final = 50_000
"""How many different accesses a server keeps that are not stored yet."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(tuple[AccessLine, ...]).decode


def add(tallies: Tallies, access: Access, tally: Tally) -> None:
    before = tallies.get(access)
    tallies[access] = tally if before is None else before.plus(tally)


def by_recipient(tallies: Mapping[Access, Tally]) -> dict[SecurableId, list[AccessLine]]:
    found: dict[SecurableId, list[AccessLine]] = {}
    for access, tally in tallies.items():
        found.setdefault(access.recipient, []).append(AccessLine(access=access, tally=tally))
    return found


def encode_lines(lines: Iterable[AccessLine]) -> bytes:
    return _encode(tuple(lines))


def decode_lines(body: bytes) -> tuple[AccessLine, ...]:
    return _decode(body)
