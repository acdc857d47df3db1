"""The objects of the catalog: metastore → catalog → namespace (any depth) → table, view, volume, …

Shares, recipients, storage credentials and external locations are children of the metastore too, and the objects of a
share are children of the share."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec
from msgspec.structs import replace

from moorage.core.ids import SecurableId


class Kind(StrEnum):
    """The kind of a catalog object."""

    METASTORE = "metastore"
    CATALOG = "catalog"
    NAMESPACE = "namespace"
    TABLE = "table"
    VIEW = "view"
    VOLUME = "volume"
    FUNCTION = "function"
    MODEL = "model"
    MODEL_VERSION = "model_version"
    PIPELINE = "pipeline"
    """A project of Spark's declarative pipelines: its source, its graph and its triggers."""
    USER = "user"
    SERVICE_PRINCIPAL = "service_principal"
    GROUP = "group"
    TOKEN = "token"  # noqa: S105 - the name of a kind
    """A token of the principal that is its parent."""
    STAGING_TABLE = "stage"
    """A staging table: an id and a location reserved for a table to come. It is not listed, and it expires."""
    CREDENTIAL = "credential"
    """A storage credential: a key or a role that opens an object store."""
    EXTERNAL_LOCATION = "external_location"
    """A folder in an object store, and the credential that opens it."""
    SHARE = "share"
    RECIPIENT = "recipient"
    SHARED_OBJECT = "shared_object"
    """A table or a whole schema in a share. Its name is the one that recipients see."""


class Shelf(StrEnum):
    """The name scope among siblings: names are unique per parent and shelf. Tables and views share one."""

    METASTORE = "metastore"
    CATALOG = "catalog"
    NAMESPACE = "namespace"
    RELATION = "relation"
    VOLUME = "volume"
    FUNCTION = "function"
    MODEL = "model"
    MODEL_VERSION = "model_version"
    PIPELINE = "pipeline"
    PRINCIPAL = "principal"
    """Users, service principals and groups share one scope, because grants and owners name them alike."""
    TOKEN = "token"  # noqa: S105 - the name of a shelf
    STAGING_TABLE = "stage"
    CREDENTIAL = "credential"
    EXTERNAL_LOCATION = "external_location"
    SHARE = "share"
    RECIPIENT = "recipient"
    SHARED_OBJECT = "shared_object"


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
    Kind.PIPELINE: Shelf.PIPELINE,
    Kind.USER: Shelf.PRINCIPAL,
    Kind.SERVICE_PRINCIPAL: Shelf.PRINCIPAL,
    Kind.GROUP: Shelf.PRINCIPAL,
    Kind.TOKEN: Shelf.TOKEN,
    Kind.STAGING_TABLE: Shelf.STAGING_TABLE,
    Kind.CREDENTIAL: Shelf.CREDENTIAL,
    Kind.EXTERNAL_LOCATION: Shelf.EXTERNAL_LOCATION,
    Kind.SHARE: Shelf.SHARE,
    Kind.RECIPIENT: Shelf.RECIPIENT,
    Kind.SHARED_OBJECT: Shelf.SHARED_OBJECT,
}

NO_PARENT = SecurableId("")
"""The parent of the metastore."""

MAIN = "main"
"""The ref that every table has: its main line of versions."""


Grants = dict[str, tuple[str, ...]]
"""The privileges of each principal, by its name. Never changed in place."""


class Column(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One column, as every API can describe it. `type_json` is the type in the format's own notation."""

    name: str
    type_text: str
    type_json: str | None = None
    nullable: bool = True
    comment: str | None = None
    partition_index: int | None = None


class TableDoc(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The part of a record that only tables have. The formats fill it in."""

    format: str
    managed: bool = True
    columns: tuple[Column, ...] = ()


class Doc(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The part of a securable that its owner can replace as a whole."""

    comment: str | None = None
    properties: dict[str, str] = {}
    location: str | None = None
    """The location of a table or volume. For a catalog or namespace: the root for managed tables and volumes."""
    external: bool = False
    """For a volume: its files belong to its owner. For a table, `table.managed` states this."""
    table: TableDoc | None = None
    details: dict[str, Any] = {}
    """Data that one API stores and the others preserve unread: a view's text, a function's body."""


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """The newest version of one line of a table."""

    ref: str
    version: int
    timestamp_ms: int
    row_id_mark: int | None
    floor: int
    """Versions below it are no longer available. Their files may be deleted."""
    published: int | None
    """Commits up to this version have their final names in storage. None: no commit has."""
    client_published: int = -1
    """The client-published version: up to here a client reported that it published the commits itself."""


class Securable(msgspec.Struct, frozen=True, kw_only=True):
    """One named object, as the ledger records it."""

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
    """When a dropped object may be purged. Until then it can be undropped."""
    purged: bool = False
    """The purge was announced: undrop is refused from now on."""
    expires_at_ms: int | None = None
    doc: Doc
    head: Head | None = None
    grants: Grants = {}
    """What principals other than the owner may do to the object and to what is below it."""

    @property
    def is_live(self) -> bool:
        return self.dropped_at_ms is None

    @property
    def due_ms(self) -> int:
        """When it may be purged: at the end of its hold or of a staging table's lifetime. -1: never."""
        due = self.expires_at_ms if self.is_live else self.purge_at_ms
        return -1 if due is None else due

    @property
    def owned_location(self) -> str | None:
        """The location whose files a purge deletes. None if the files belong to the user."""
        table = self.doc.table
        is_external = self.doc.external or (table is not None and not table.managed and not self.is_purge_requested)
        return None if is_external or self.kind not in _HOLDS_FILES else self.doc.location

    @property
    def is_purge_requested(self) -> bool:
        """Whether the owner asked to delete the files of this external table with the drop."""
        return _PURGE_REQUESTED in self.doc.details

    @property
    def locations(self) -> tuple[str, ...]:
        """All locations of its files, regardless of their owner: the current one, and former ones if it was moved."""
        return () if self.doc.location is None else (self.doc.location, *self.doc.details.get(FORMER_LOCATIONS, ()))

    @property
    def owned_locations(self) -> tuple[str, ...]:
        """All locations whose files a purge deletes."""
        return () if self.owned_location is None else self.locations


FORMER_LOCATIONS = "former_places"
"""Key in the details of an object that was moved: its former locations."""

_HOLDS_FILES = frozenset({Kind.TABLE, Kind.VOLUME, Kind.MODEL, Kind.MODEL_VERSION, Kind.STAGING_TABLE})
_RELEASED = "let_go"
"""Key in the details of a dropped managed table whose files stay in storage."""
_PURGE_REQUESTED = "doomed"
"""Key in the details of a dropped external table whose files its owner asked to delete."""


def release_files(doc: Doc) -> Doc:
    """The record of a table that is dropped without its files. The catalog no longer owns them."""
    if doc.table is None or not doc.table.managed:
        return doc
    return replace(doc, table=replace(doc.table, managed=False), details={**doc.details, _RELEASED: True})


def request_purge(doc: Doc) -> Doc:
    """The record of a table that is dropped with its files, even if it is external."""
    if doc.table is None or doc.table.managed:
        return doc
    return replace(doc, details={**doc.details, _PURGE_REQUESTED: True})


def restore_ownership(doc: Doc) -> Doc:
    """The record of an undropped object. Its files have the same owner as before the drop."""
    details = {name: value for name, value in doc.details.items() if name not in (_RELEASED, _PURGE_REQUESTED)}
    if doc.table is None or details == doc.details:
        return doc
    managed = doc.table.managed or _RELEASED in doc.details
    return replace(doc, table=replace(doc.table, managed=managed), details=details)
