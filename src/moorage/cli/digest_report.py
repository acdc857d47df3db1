"""Prints the rows and the hash of each ledger table that a backup, a restore or a move copied."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from moorage.ledger.transfer.digests import Digest


def show(digests: Mapping[str, Digest], message: str, *, as_json: bool) -> None:
    if as_json:
        import msgspec

        print(msgspec.json.encode({"tables": digests}).decode())
        return
    for name, digest in digests.items():
        print(f"{name:<12} {digest.rows:>12,} rows  sha256 {digest.sha256}")
    print(message)
