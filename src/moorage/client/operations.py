"""The operations of a transaction. A path starts with the name of its catalog."""

from __future__ import annotations

from typing import Any

import msgspec


class CreateNamespace(msgspec.Struct, frozen=True, kw_only=True, tag_field="op", tag="create_namespace"):
    path: tuple[str, ...]
    comment: str | None = None
    properties: dict[str, str] = {}


class SetProperties(msgspec.Struct, frozen=True, kw_only=True, tag_field="op", tag="set_properties"):
    kind: str
    path: tuple[str, ...]
    properties: dict[str, str] = {}
    remove: tuple[str, ...] = ()


class Rename(msgspec.Struct, frozen=True, kw_only=True, tag_field="op", tag="rename"):
    kind: str
    path: tuple[str, ...]
    to: tuple[str, ...]


class Drop(msgspec.Struct, frozen=True, kw_only=True, tag_field="op", tag="drop"):
    kind: str
    path: tuple[str, ...]
    cascade: bool = False


class DeltaCommit(msgspec.Struct, frozen=True, kw_only=True, tag_field="op", tag="delta_commit"):
    """Makes a staged commit the next version of a managed Delta table."""

    table_id: str
    version: int
    timestamp: int
    file_name: str
    file_size: int
    file_modification_timestamp: int


class IcebergCommit(msgspec.Struct, frozen=True, kw_only=True, tag_field="op", tag="iceberg_commit"):
    """Updates an Iceberg table if all requirements are met."""

    path: tuple[str, ...]
    requirements: tuple[dict[str, Any], ...] = ()
    updates: tuple[dict[str, Any], ...]


class LanceDeclare(msgspec.Struct, frozen=True, kw_only=True, tag_field="op", tag="lance_declare"):
    """Declares a new Lance table. Later operations of the same transaction may create its versions."""

    path: tuple[str, ...]
    location: str | None = None
    properties: dict[str, str] | None = None


class LanceDeregister(msgspec.Struct, frozen=True, kw_only=True, tag_field="op", tag="lance_deregister"):
    """Removes a Lance table from the catalog and keeps its files."""

    path: tuple[str, ...]


class LanceVersion(msgspec.Struct, frozen=True, kw_only=True, tag_field="op", tag="lance_version"):
    """Makes a staged manifest the next version of a Lance table. `Transaction.hand_over` returns such operations."""

    path: tuple[str, ...]
    version: int
    manifest_path: str
    manifest_size: int | None = None
    e_tag: str | None = None
    metadata: dict[str, str] | None = None
    naming_scheme: str | None = None
    branch: str | None = None


Operation = (
    CreateNamespace
    | SetProperties
    | Rename
    | Drop
    | DeltaCommit
    | IcebergCommit
    | LanceDeclare
    | LanceVersion
    | LanceDeregister
)
