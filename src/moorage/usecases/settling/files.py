"""Files that parts of a change speak of."""

from __future__ import annotations

import msgspec


class File(msgspec.Struct, frozen=True):
    """A file in storage."""

    root: str
    path: str


class NewFile(File, frozen=True):
    """A file that an entry speaks of, under a name that nobody else has."""

    data: bytes
    is_kept: bool = False
    """Whether the draft has its bytes too. Then they need not wait for the disk: the ledger does."""
