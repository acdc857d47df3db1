"""The metadata of a table or view while the updates of one request are applied to it, one after another."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from moorage.formats.iceberg.documents import Document


class Edit(msgspec.Struct, frozen=True, kw_only=True):
    """The document so far, and what earlier updates of the same request added."""

    doc: Document
    now_ms: int
    schema_id: int | None = None
    """The schema added last: an update may call it -1. Likewise the three below."""
    spec_id: int | None = None
    order_id: int | None = None
    view_version_id: int | None = None
    added: frozenset[int] = frozenset()
    """Snapshots of a table, or versions of a view, that this request added."""
    were_main: frozenset[int] = frozenset()
    """Those of them that were the current one for a while, if only within this request."""
    lost_snapshots: bool = False

    @property
    def format_version(self) -> int:
        return int(self.doc["format-version"])

    def put(self, **changes: Any) -> Edit:
        """Replace fields of the document, with dashes for underscores. None takes a field away."""
        named = {name.replace("_", "-"): value for name, value in changes.items()}
        doc = {**self.doc, **named}
        for name, value in named.items():
            if value is None:
                del doc[name]
        return replace(self, doc=doc)

    def noting(self, **notes: Any) -> Edit:
        return replace(self, **notes)
