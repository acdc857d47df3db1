"""Requests and responses of the Iceberg REST catalog, named as in its specification."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from moorage.formats.iceberg.changes import AssertViewUUID, Schema, TableRequirement, TableUpdate, ViewUpdate

Properties = dict[str, str]
Levels = Annotated[tuple[str, ...], Meta(min_length=1, description="The names of a namespace, outermost first.")]
TableMetadata = Annotated[
    dict[str, Any], Meta(description="Table metadata, as the Iceberg table specification defines it.")
]


class Kebab(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """A struct whose JSON names are in kebab case."""


class CreateNamespaceRequest(Kebab, frozen=True, kw_only=True):
    """A namespace to create. All levels above the last must exist."""

    namespace: Levels
    properties: Properties | None = None


class CreateNamespaceResponse(Kebab, frozen=True, kw_only=True):
    """A namespace and its properties."""

    namespace: Levels
    properties: Properties


class ListNamespacesResponse(Kebab, frozen=True, kw_only=True):
    """One page of namespaces. Without a token it is the last."""

    namespaces: tuple[Levels, ...]
    next_page_token: str | None = None


class UpdateNamespacePropertiesRequest(Kebab, frozen=True, kw_only=True):
    """The properties to remove, and those to set."""

    removals: tuple[str, ...] | None = None
    updates: Properties | None = None


class UpdateNamespacePropertiesResponse(Kebab, frozen=True, kw_only=True):
    """The properties that were updated, removed, or missing."""

    updated: tuple[str, ...]
    removed: tuple[str, ...]
    missing: tuple[str, ...] | None = None


class TableIdentifier(Kebab, frozen=True, kw_only=True):
    """A table or view by its namespace and name."""

    namespace: Levels
    name: str


class ListTablesResponse(Kebab, frozen=True, kw_only=True):
    """One page of tables or views. Without a token it is the last."""

    identifiers: tuple[TableIdentifier, ...]
    next_page_token: str | None = None


class CreateTableRequest(Kebab, frozen=True, kw_only=True):
    """A table to create; with `stage-create`, only to stage."""

    name: str
    schema: Schema
    location: str | None = None
    partition_spec: dict[str, Any] | None = None
    write_order: dict[str, Any] | None = None
    stage_create: bool | None = None
    properties: Properties | None = None


class RegisterTableRequest(Kebab, frozen=True, kw_only=True):
    """The name for an existing table, and its metadata file."""

    name: str
    metadata_location: str
    overwrite: bool | None = False


class RenameTableRequest(Kebab, frozen=True, kw_only=True):
    """The current and the new name of a table or view."""

    source: TableIdentifier
    destination: TableIdentifier


class CommitTableRequest(Kebab, frozen=True, kw_only=True):
    """Updates of a table, and the requirements that must hold for them. Without them, nothing changes."""

    requirements: tuple[TableRequirement, ...] | None = None
    updates: tuple[TableUpdate, ...] | None = None
    identifier: TableIdentifier | None = None


class CommitViewRequest(Kebab, frozen=True, kw_only=True):
    """Updates of a view, and the requirements that must hold for them."""

    updates: tuple[ViewUpdate, ...] | None = None
    requirements: tuple[AssertViewUUID, ...] | None = None
    identifier: TableIdentifier | None = None


class CommitTransactionRequest(Kebab, frozen=True, kw_only=True):
    """Updates of several tables, each with its identifier."""

    table_changes: tuple[CommitTableRequest, ...]


class StorageCredential(Kebab, frozen=True, kw_only=True):
    """The configuration with which a client accesses the files below a prefix."""

    prefix: str
    config: Properties


class LoadTableResult(Kebab, frozen=True, kw_only=True):
    """A table. A staged table has no metadata location."""

    metadata: TableMetadata
    metadata_location: str | None = None
    config: Properties | None = None
    storage_credentials: tuple[StorageCredential, ...] | None = None


class CommitTableResponse(Kebab, frozen=True, kw_only=True):
    """The table after a commit."""

    metadata_location: str
    metadata: TableMetadata


class LoadCredentialsResponse(Kebab, frozen=True, kw_only=True):
    """Credentials for the files of a table; empty if the files need none."""

    storage_credentials: tuple[StorageCredential, ...]


EXAMPLE_SPACE = {"prefix": "sample", "namespace": "sales"}
EXAMPLE_TABLE = {**EXAMPLE_SPACE, "table": "shipments"}
EXAMPLE_ID = "01939c1e-5a6f-7cc1-9d3e-8f5a2b7c4d77"
EXAMPLE_SCHEMA: dict[str, Any] = {
    "type": "struct",
    "fields": [
        {"id": 1, "name": "id", "required": True, "type": "long"},
        {"id": 2, "name": "city", "required": False, "type": "string"},
    ],
}
_EXAMPLE_LOCATION = f"file:///data/managed/tables/{EXAMPLE_ID}"
EXAMPLE_METADATA: dict[str, Any] = {
    "format-version": 2,
    "table-uuid": EXAMPLE_ID,
    "last-sequence-number": 0,
    "last-column-id": 2,
    "schemas": [{"type": "struct", "schema-id": 0, "fields": EXAMPLE_SCHEMA["fields"]}],
    "partition-specs": [{"spec-id": 0, "fields": []}],
    "last-partition-id": 999,
    "sort-orders": [{"order-id": 0, "fields": []}],
    "properties": {"owner": "ann"},
    "snapshots": [],
    "refs": {},
    "snapshot-log": [],
    "metadata-log": [],
    "statistics": [],
    "partition-statistics": [],
    "location": _EXAMPLE_LOCATION,
    "current-schema-id": 0,
    "default-spec-id": 0,
    "default-sort-order-id": 0,
    "last-updated-ms": 1794737732278,
}
EXAMPLE_LOADED: dict[str, Any] = {
    "metadata-location": f"{_EXAMPLE_LOCATION}/metadata/00000-01939c1e-5a6f-7cc1-9d3e-8f5a2b7c4d78.metadata.json",
    "metadata": EXAMPLE_METADATA,
}
EXAMPLE_COMMIT: dict[str, Any] = {
    "requirements": [{"type": "assert-table-uuid", "uuid": EXAMPLE_ID}],
    "updates": [{"action": "set-properties", "updates": {"owner": "ann"}}],
}
