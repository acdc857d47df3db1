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

    `Edit.of` copies the document. Lists that grow with a table are therefore copied only once per request
    (`own`) and not once per update.
    """

    doc: Document
    now_ms: int
    owned: set[str] = set()
    by_id: dict[int, Document] = {}
    """The snapshots by id, after the first call of `snapshots`."""
    schema_id: int | None = None
    """The schema added last, to which an update refers as -1. The next three fields work in the same way."""
    spec_id: int | None = None
    order_id: int | None = None
    view_version_id: int | None = None
    added: set[int] = set()
    """Snapshots of a table, or versions of a view, that this request added."""
    were_current: set[int] = set()
    """The added snapshots that were current at some point within this request."""
    has_removed_snapshots: bool = False

    @classmethod
    def of(cls, doc: Document, *, now_ms: int) -> Edit:
        return cls(doc=dict(doc), now_ms=now_ms)

    def own(self, name: str) -> Any:
        """A list or dictionary of the document, copied once so that it can be changed in place."""
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
        """Replace fields of the document, with dashes for underscores. None removes a field."""
        for name, value in changes.items():
            field = name.replace("_", "-")
            self.doc[field] = value
            if value is None:
                del self.doc[field]
        return self

    def with_state(self, **state: Any) -> Edit:
        return replace(self, **state)
