"""What the catalog holds: metastore → catalog → namespace (any depth) → table, view, volume, …"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec
from msgspec.structs import replace

from moorage.core.ids import SecurableId


class Kind(StrEnum):
    """What an object of the catalog is."""

    METASTORE = "metastore"
    CATALOG = "catalog"
    NAMESPACE = "namespace"
    TABLE = "table"
    VIEW = "view"
    VOLUME = "volume"
    FUNCTION = "function"
    MODEL = "model"
    MODEL_VERSION = "model_version"
    STAGE = "stage"
    """A place reserved for a table that is not one yet: nobody lists it, and it expires."""


class Shelf(StrEnum):
    """Names are unique per parent and shelf; tables and views stand on one."""

    METASTORE = "metastore"
    CATALOG = "catalog"
    NAMESPACE = "namespace"
    RELATION = "relation"
    VOLUME = "volume"
    FUNCTION = "function"
    MODEL = "model"
    MODEL_VERSION = "model_version"
    STAGE = "stage"


SHELF_OF: dict[Kind, Shelf] = {
    Kind.METASTORE: Shelf.METASTORE,
    Kind.CATALOG: Shelf.CATALOG,
    Kind.NAMESPACE: Shelf.NAMESPACE,
    Kind.TABLE: Shelf.RELATION,
    Kind.VIEW: Shelf.RELATION,
    Kind.VOLUME: Shelf.VOLUME,
    Kind.FUNCTION: Shelf.FUNCTION,
    Kind.MODEL: Shelf.MODEL,
    Kind.MODEL_VERSION: Shelf.MODEL_VERSION,
    Kind.STAGE: Shelf.STAGE,
}

NOWHERE = SecurableId("")
"""The parent of the metastore."""

MAIN = "main"
"""The ref every table has: its main line of versions."""


class Column(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One column, as every API can describe it. `type_json` is the format's own words."""

    name: str
    type_text: str
    type_json: str | None = None
    nullable: bool = True
    comment: str | None = None
    partition_index: int | None = None


class TableDoc(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the formats fill in: the part of a record that only tables have."""

    format: str
    managed: bool = True
    columns: tuple[Column, ...] = ()


class Doc(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The part of a securable that its owner describes and may replace as a whole."""

    comment: str | None = None
    properties: dict[str, str] = {}
    location: str | None = None
    """Where a table or volume lives; for a catalog or namespace, the root below which managed ones do."""
    external: bool = False
    """Of a volume: its files are its owner's. A table says it in `table`."""
    table: TableDoc | None = None
    details: dict[str, Any] = {}
    """What one API keeps and others carry unread: a view's text, a function's body."""


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """The newest version of one line of a table."""

    ref: str
    version: int
    timestamp_ms: int
    row_id_mark: int | None
    floor: int
    """Versions below it are no longer available; their files may be gone."""
    published: int | None
    """Up to here the commits lie under their final names in storage. None: not one of them."""
    claimed: int = -1
    """Up to here a client said so itself, and knows it."""


class Securable(msgspec.Struct, frozen=True, kw_only=True):
    """One named object, as the ledger knows it."""

    id: SecurableId
    kind: Kind
    parent: SecurableId
    name: str
    owner: str
    revision: int
    created_at_ms: int
    created_by: str
    updated_at_ms: int
    updated_by: str
    dropped_at_ms: int | None = None
    purge_at_ms: int | None = None
    """When a dropped object may be purged; until then it can be undropped."""
    purged: bool = False
    """Purging was announced: undrop is refused from here on."""
    expires_at_ms: int | None = None
    doc: Doc
    head: Head | None = None

    @property
    def is_live(self) -> bool:
        return self.dropped_at_ms is None

    @property
    def due_ms(self) -> int:
        """When a purge may take it: at the end of its hold, or of a stage's life; -1 is never."""
        due = self.expires_at_ms if self.is_live else self.purge_at_ms
        return -1 if due is None else due

    @property
    def own_place(self) -> str | None:
        """Where the files lie that go when it is purged. What users brought stays theirs: then there is none."""
        table = self.doc.table
        brought = self.doc.external or (table is not None and not table.managed and not self.is_doomed)
        return None if brought or self.kind not in _HOLDS_FILES else self.doc.location

    @property
    def is_doomed(self) -> bool:
        """Whether its files go with it though its owner chose where they lie."""
        return _DOOMED in self.doc.details

    @property
    def places(self) -> tuple[str, ...]:
        """Where its files lie, whoever they belong to: where it is, and where it was if it was moved."""
        return () if self.doc.location is None else (self.doc.location, *self.doc.details.get(FORMER_PLACES, ()))

    @property
    def own_places(self) -> tuple[str, ...]:
        """All whose files go when it is purged."""
        return () if self.own_place is None else self.places


FORMER_PLACES = "former_places"
"""In the details of something that was moved: where it was."""

_HOLDS_FILES = frozenset({Kind.TABLE, Kind.VOLUME, Kind.MODEL, Kind.MODEL_VERSION, Kind.STAGE})
_LET_GO = "let_go"
"""In the details of a dropped table whose files stay where they are: they were the catalog's own."""
_DOOMED = "doomed"
"""In the details of a dropped table whose files go, though they are its owner's: so he wanted it."""


def let_go(doc: Doc) -> Doc:
    """The record of a table that is dropped without its files: they belong to whoever finds them."""
    if doc.table is None or not doc.table.managed:
        return doc
    return replace(doc, table=replace(doc.table, managed=False), details={**doc.details, _LET_GO: True})


def doomed(doc: Doc) -> Doc:
    """The record of a table that is dropped with its files, wherever they lie."""
    if doc.table is None or doc.table.managed:
        return doc
    return replace(doc, details={**doc.details, _DOOMED: True})


def taken_back(doc: Doc) -> Doc:
    """The record of what was dropped and is undropped: its files are again whose they were before."""
    details = {name: value for name, value in doc.details.items() if name not in (_LET_GO, _DOOMED)}
    if doc.table is None or details == doc.details:
        return doc
    managed = doc.table.managed or _LET_GO in doc.details
    return replace(doc, table=replace(doc.table, managed=managed), details=details)
