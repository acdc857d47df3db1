"""A cache of parsed documents. Equal bytes always parse to the same document, so only new bytes are parsed.

Every read still fetches the bytes from the database, because another server may have written. But parsing the same
hundred documents again would be most of the cost of a listing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from moorage.core.ids import SecurableId
from moorage.core.securables import Doc, Head, Securable
from moorage.ledger import rows

_MAX_BYTES: Final = 32 * 1024 * 1024
"""The total size of raw documents. Parsed, they take about four times that."""
_OVERHEAD_BYTES: Final = 256
"""The cache overhead of one document."""


class Docs:
    """The last document of each object, by id."""

    def __init__(self, most_bytes: int = _MAX_BYTES) -> None:
        self._known: dict[SecurableId, tuple[bytes, Doc]] = {}
        self._max_bytes = most_bytes
        self._bytes = 0

    def securable(self, row: Sequence[Any], head: Head | None = None) -> Securable:
        """From SECURABLE_COLUMNS."""
        id, raw = row[0], row[rows.DOC]
        known = self._known.get(id)
        if known is not None and known[0] == raw:
            return rows.securable(row, head, known[1])
        found = rows.securable(row, head)
        self._store(id, raw, found.doc)
        return found

    def _store(self, id: SecurableId, raw: bytes, doc: Doc) -> None:
        """Cache a document. Clear the cache when it is full; replaced documents count until then: that is cheap."""
        if self._bytes > self._max_bytes:
            self._known.clear()
            self._bytes = 0
        self._bytes += len(raw) + _OVERHEAD_BYTES
        self._known[id] = raw, doc
