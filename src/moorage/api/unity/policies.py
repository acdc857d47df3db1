"""Row filters and column masks, which this server does not enforce.

An unknown field of a request is ignored. These must not be: the client expects that rows are hidden, while every
reader of the table's files sees them.
"""

from __future__ import annotations

from typing import Any

import msgspec

from moorage.core.errors import Unsupported


class _Column(msgspec.Struct):
    name: str | None = None
    mask: Any = None


class _Table(msgspec.Struct):
    row_filter: Any = None
    columns: list[_Column] | None = None


_decode = msgspec.json.Decoder(_Table).decode


def require_no_policies(raw_body: bytes) -> None:
    """Refuse a table with a row filter or a column mask. The body was parsed before."""
    table = _decode(raw_body)
    if table.row_filter is not None:
        raise Unsupported(
            "row filters are not enforced by this server, so a table with one is refused; "
            "grant SELECT on a table or a share that has only the visible rows",
            field="row_filter",
        )
    masked = [column.name for column in table.columns or () if column.mask is not None]
    if masked:
        raise Unsupported(
            f"column masks are not enforced by this server, so a table with one on '{masked[0]}' is refused; "
            "grant SELECT on a table without the column",
            field="columns",
        )
