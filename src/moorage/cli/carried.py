"""What a backup, a restore or a move has carried, table by table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from moorage.ledger.transfer.digests import Digest


def show(carried: Mapping[str, Digest], what: str, *, as_json: bool) -> None:
    if as_json:
        import msgspec

        print(msgspec.json.encode({"tables": carried}).decode())
        return
    for name, digest in carried.items():
        print(f"{name:<12} {digest.rows:>12,} rows  sha256 {digest.sha256}")
    print(what)
