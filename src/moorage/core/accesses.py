"""The lines of the audit: what recipients read, and what principals did. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

import msgspec

from moorage.core.ids import SecurableId


class Outcome(StrEnum):
    """What became of the requests of a line."""

    ALLOWED = "allowed"
    DENIED = "denied"
    FAILED = "failed"
    """The caller had the privileges, and the request failed for another reason, such as a conflict."""


class Access(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One kind of request. Requests that agree in all of this are counted together.

    A request of a recipient has the first group of fields, a request of a principal the second.
    """

    operation: str
    address: str = ""
    """The IP address that the requests came from."""
    refusal: str | None = None
    """Why the requests were refused; None if they were not."""

    recipient: SecurableId | None = None
    share: str | None = None
    table: str | None = None
    """As the recipient sees it: schema.table."""
    table_id: SecurableId | None = None
    version: int | None = None

    principal: str | None = None
    """The caller; None if it is not known."""
    api: str = ""
    object: str | None = None
    """The object that was decided about, with its kind: `table lake.sea.boats`."""
    error: str | None = None
    """Why requests that were not refused failed; None if they succeeded."""

    @property
    def outcome(self) -> Outcome:
        if self.refusal is not None:
            return Outcome.DENIED
        return Outcome.ALLOWED if self.error is None else Outcome.FAILED


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


def by_subject(tallies: Mapping[Access, Tally], root: SecurableId) -> dict[SecurableId, list[AccessLine]]:
    """The lines of each recipient, and under the root those of all principals."""
    found: dict[SecurableId, list[AccessLine]] = {}
    for access, tally in tallies.items():
        found.setdefault(access.recipient or root, []).append(AccessLine(access=access, tally=tally))
    return found


def encode_lines(lines: Iterable[AccessLine]) -> bytes:
    return _encode(tuple(lines))


def decode_lines(body: bytes) -> tuple[AccessLine, ...]:
    return _decode(body)
