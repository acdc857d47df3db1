"""The metadata of a table or view while the updates of one request are applied to it, one after another."""

from __future__ import annotations

from copy import copy
from operator import itemgetter
from typing import Any

import msgspec
from msgspec.structs import replace

from moorage.formats.iceberg.documents import Document

_snapshot_id = itemgetter("snapshot-id")


class Edit(msgspec.Struct, frozen=True, kw_only=True):
    """The document so far, and what earlier updates of the same request added.

    Begun with `Edit.of`: the document is this edit's own, so what grows with a table is copied once for a
    request (`own`) and not once for each of its updates.
    """

    doc: Document
    now_ms: int
    owned: set[str] = set()
    by_id: dict[int, Document] = {}
    """The snapshots, once somebody asked for one."""
    schema_id: int | None = None
    """The schema added last: an update may call it -1. Likewise the three below."""
    spec_id: int | None = None
    order_id: int | None = None
    view_version_id: int | None = None
    added: set[int] = set()
    """Snapshots of a table, or versions of a view, that this request added."""
    were_main: set[int] = set()
    """Those of them that were the current one for a while, if only within this request."""
    lost_snapshots: bool = False

    @classmethod
    def of(cls, doc: Document, *, now_ms: int) -> Edit:
        return cls(doc=dict(doc), now_ms=now_ms)

    def own(self, name: str) -> Any:
        """A list or dictionary of the document, which may be changed in place from now on."""
        if name not in self.owned:
            self.doc[name] = copy(self.doc[name])
            self.owned.add(name)
        return self.doc[name]

    def snapshots(self) -> dict[int, Document]:
        if not self.by_id:
            found = self.doc["snapshots"]
            self.by_id.update(zip(map(_snapshot_id, found), found, strict=True))
        return self.by_id

    @property
    def format_version(self) -> int:
        return int(self.doc["format-version"])

    def put(self, **changes: Any) -> Edit:
        """Replace fields of the document, with dashes for underscores. None takes a field away."""
        for name, value in changes.items():
            field = name.replace("_", "-")
            self.doc[field] = value
            if value is None:
                del self.doc[field]
        return self

    def noting(self, **notes: Any) -> Edit:
        return replace(self, **notes)
