"""Reference to a table, with the ratified commits that its log folder may not contain yet."""

from __future__ import annotations

from functools import cached_property

import msgspec


class Ratified(msgspec.Struct, frozen=True, kw_only=True):
    """A commit that the ledger has ratified: its bytes, or the staged file that contains them."""

    version: int
    data: bytes | None = None
    path: str | None = None
    """Relative to the table's location. The file may be deleted once the commit is published."""
    size: int | None = None
    digest: str | None = None
    """SHA-256 of the bytes, as the ledger recorded it."""


class TableRef(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A Delta table. With a head, this catalog manages it, and files of later versions in its folder are ignored."""

    id: str
    location: str
    head: int | None = None
    """The newest version in the ledger. None: only the log folder shows which versions exist."""
    ratified: tuple[Ratified, ...] = ()
    """Commits that may be unpublished. They take precedence over a published file of the same version."""
    floor: int = 0
    """Versions below it can no longer be read; their files may be deleted."""

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
