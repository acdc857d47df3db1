"""Numbered SQL files, read the same way for both stores.

A migration keeps the previous release working (expand first, contract later). Its first line states
the oldest code that may run on the resulting schema.
"""

from __future__ import annotations

import re
from importlib.resources import files

import msgspec

from moorage.core.errors import Unavailable

CODE = 1
"""The schema generation that this code is written for."""

_FIRST_LINE = re.compile(r"-- oldest code that may run on this schema: (\d+)\n")


class Migration(msgspec.Struct, frozen=True):
    version: int
    name: str
    oldest_code: int
    sql: str


def migrations_of(package: str) -> tuple[Migration, ...]:
    """The migrations that ship with a store, in order."""
    found = []
    for file in sorted(files(package).joinpath("migrations").iterdir(), key=lambda f: f.name):
        if not file.name.endswith(".sql"):
            continue
        sql = file.read_text(encoding="utf-8")
        first = _FIRST_LINE.match(sql)
        if first is None:
            raise ValueError(f"{file.name} does not begin with '-- oldest code that may run on this schema: N'")
        number, _, name = file.name.removesuffix(".sql").partition("_")
        found.append(Migration(int(number), name, int(first[1]), sql))
    return tuple(found)


def newest(package: str) -> int:
    """The newest schema version of a store."""
    return migrations_of(package)[-1].version


def require_readable(oldest_code: int) -> None:
    """Refuse a newer schema, unless it still allows this code."""
    if oldest_code > CODE:
        raise Unavailable(
            f"this ledger needs Moorage with schema code {oldest_code} or newer, this one has {CODE}: "
            "upgrade Moorage, or restore a backup made before the upgrade"
        )
