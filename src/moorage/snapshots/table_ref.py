"""Which table to read, and what the ledger knows of it that its log folder may not show yet."""

from __future__ import annotations

from functools import cached_property

import msgspec


class Ratified(msgspec.Struct, frozen=True, kw_only=True):
    """A commit that the ledger has ratified: its bytes, or the staged file that holds them."""

    version: int
    data: bytes | None = None
    path: str | None = None
    """Below the table's location. The file may be gone once the commit is published."""
    size: int | None = None
    digest: str | None = None
    """SHA-256 of the bytes, as the ledger recorded it."""


class TableRef(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A Delta table. With a head it is ours, and no file in its folder speaks for a later version."""

    id: str
    location: str
    head: int | None = None
    """The ledger's newest version. None: nobody but the log folder knows."""
    ratified: tuple[Ratified, ...] = ()
    """What may be unpublished. It counts more than a published file of the same version."""
    floor: int = 0
    """Versions below it are no longer offered; their files may be gone."""

    @property
    def latest(self) -> int | None:
        known = [commit.version for commit in self.ratified]
        return max(known, default=None) if self.head is None else self.head

    @property
    def root(self) -> str:
        return self.location if self.location.endswith("/") else self.location + "/"

    @cached_property
    def commits(self) -> dict[int, Ratified]:
        return {commit.version: commit for commit in self.ratified}
