"""Documents that were read before. What their bytes say never changes, so only new bytes are parsed.

The database is asked for all of them each time: another server may have written. But most of what a list costs this
one is to parse a hundred documents that it parsed a moment ago.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from moorage.core.ids import SecurableId
from moorage.core.securables import Doc, Head, Securable
from moorage.ledger import rows

_MOST_BYTES: Final = 32 * 1024 * 1024
"""Of documents; parsed they take about four times that."""
_BARE_BYTES: Final = 256
"""What an empty one takes to be remembered."""


class Docs:
    """The last document of each object, by its id."""

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._known: dict[SecurableId, tuple[bytes, Doc]] = {}
        self._most_bytes = most_bytes
        self._bytes = 0

    def securable(self, row: Sequence[Any], head: Head | None = None) -> Securable:
        """From the columns SECURABLE_COLUMNS."""
        id, raw = row[0], row[rows.DOC]
        known = self._known.get(id)
        if known is not None and known[0] == raw:
            return rows.securable(row, head, known[1])
        found = rows.securable(row, head)
        self._keep(id, raw, found.doc)
        return found

    def _keep(self, id: SecurableId, raw: bytes, doc: Doc) -> None:
        """Begin anew when it is full. What was replaced since the last time counts, too: that is cheap."""
        if self._bytes > self._most_bytes:
            self._known.clear()
            self._bytes = 0
        self._bytes += len(raw) + _BARE_BYTES
        self._known[id] = raw, doc
