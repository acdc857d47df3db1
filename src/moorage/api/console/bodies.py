"""The console's wire structs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import asdict

from moorage.core.securables import Column, Kind, Securable

Name = Annotated[str, Meta(min_length=1, max_length=255, description="A name. Case is preserved, but not compared.")]
Properties = dict[str, str]
Whole = Annotated[int, Meta(ge=0, le=2**53 - 1)]
"""A non-negative integer that every JSON parser represents exactly."""


class CreateCatalog(msgspec.Struct, frozen=True, kw_only=True):
    """A catalog to create."""

    name: Name
    comment: str | None = None
    properties: Properties = {}


class CreateNamespace(msgspec.Struct, frozen=True, kw_only=True):
    """A namespace to create. All levels above the last one must exist."""

    path: Annotated[tuple[Name, ...], Meta(min_length=1, max_length=31)]
    comment: str | None = None
    properties: Properties = {}


class Describe(msgspec.Struct, frozen=True, kw_only=True):
    """What to change about an object. Absent fields stay as they are."""

    comment: str | UnsetType | None = UNSET
    owner: Name | UnsetType = UNSET
    set_properties: Properties = {}
    remove_properties: tuple[str, ...] = ()
    revision: Annotated[Whole | None, Meta(description="Apply only if the object is at this revision.")] = None


class NewName(msgspec.Struct, frozen=True, kw_only=True):
    """The new name of an object."""

    new_name: Name


class Undrop(msgspec.Struct, frozen=True, kw_only=True):
    """Which dropped object to restore, and under which name if its own is taken."""

    kind: Literal["catalog", "namespace", "table", "view"]
    id: str
    new_name: Name | None = None


class ObjectInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A catalog, a namespace or another named object."""

    id: str
    kind: Kind
    name: str
    owner: str
    comment: str | None
    properties: Properties
    revision: Whole
    created_at_ms: Whole
    created_by: str
    updated_at_ms: Whole
    updated_by: str
    dropped_at_ms: Whole | None = None
    purge_at_ms: Whole | None = None


class HeadInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The newest version of a table."""

    version: Whole
    timestamp_ms: Whole
    published: Whole | None


class TableInfo(ObjectInfo, frozen=True, kw_only=True):
    """A table or view of any format."""

    format: str | None
    managed: bool
    location: str | None
    columns: tuple[Column, ...]
    head: HeadInfo | None


class LocatedTable(TableInfo, frozen=True, kw_only=True):
    """A table or view, with its current path of names: catalog, namespaces, table."""

    path: tuple[str, ...]


class ObjectList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of a list. Without a token it is the last page."""

    items: tuple[ObjectInfo, ...]
    next_page_token: str | None


class TableList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of tables and views. Without a token it is the last page."""

    items: tuple[TableInfo, ...]
    next_page_token: str | None


def object_info(securable: Securable) -> ObjectInfo:
    doc = securable.doc
    return ObjectInfo(
        id=securable.id,
        kind=securable.kind,
        name=securable.name,
        owner=securable.owner,
        comment=doc.comment,
        properties=doc.properties,
        revision=securable.revision,
        created_at_ms=securable.created_at_ms,
        created_by=securable.created_by,
        updated_at_ms=securable.updated_at_ms,
        updated_by=securable.updated_by,
        dropped_at_ms=securable.dropped_at_ms,
        purge_at_ms=securable.purge_at_ms,
    )


def table_info(securable: Securable) -> TableInfo:
    doc, head = securable.doc, securable.head
    return TableInfo(
        **asdict(object_info(securable)),
        format=doc.table.format if doc.table else None,
        managed=doc.table.managed if doc.table else False,
        location=doc.location,
        columns=doc.table.columns if doc.table else (),
        head=None
        if head is None
        else HeadInfo(version=head.version, timestamp_ms=head.timestamp_ms, published=head.published),
    )


def located_table(chain: tuple[Securable, ...]) -> LocatedTable:
    return LocatedTable(**asdict(table_info(chain[-1])), path=tuple(each.name for each in chain))


EXAMPLE_CATALOG: dict[str, Any] = {
    "id": "01939c1e-5a6f-7cc1-9d3e-8f5a2b7c4d10",
    "kind": "catalog",
    "name": "sample",
    "owner": "local",
    "comment": "A small lake to look around in.",
    "properties": {"team": "sales"},
    "revision": 1,
    "created_at_ms": 1794737732278,
    "created_by": "local",
    "updated_at_ms": 1794737732278,
    "updated_by": "local",
    "dropped_at_ms": None,
    "purge_at_ms": None,
}
EXAMPLE_NAMESPACE: dict[str, Any] = EXAMPLE_CATALOG | {"kind": "namespace", "name": "eu"}
EXAMPLE_TABLE: dict[str, Any] = EXAMPLE_CATALOG | {
    "id": "01939c1e-5a6f-7cc1-9d3e-8f5a2b7c4e07",
    "kind": "table",
    "name": "orders",
    "format": "delta",
    "managed": True,
    "location": "file:///data/managed/01939c1e-5a6f-7cc1-9d3e-8f5a2b7c4e07/",
    "columns": [{"name": "id", "type_text": "bigint", "nullable": False}],
    "head": {"version": 7, "timestamp_ms": 1794737732278, "published": 7},
}
