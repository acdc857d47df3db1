"""Wire structs of the Lance namespace, with the names of its specification.

Bodies may also have `identity` and `context`. Clients send their contents in headers, so the fields are ignored here.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from moorage.http.inputs import Int64

Properties = dict[str, str]
Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]

EXAMPLE_SPACE = {"id": "sample$sales"}
EXAMPLE_TABLE = {"id": "sample$sales$vectors"}
EXAMPLE_NEW_TABLE = {"id": "sample$sales$embeddings"}
EXAMPLE_ID = "01939c1e-5a6f-7cc1-9d3e-8f5a2b7c4d99"
EXAMPLE_LOCATION = f"file:///var/lib/moorage/managed/tables/{EXAMPLE_ID}"


class Named(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A body that may repeat the identifier of the path."""

    id: list[str] | None = None


class DescribeNamespaceRequest(Named, frozen=True, kw_only=True):
    """The namespace to describe."""


class NamespaceExistsRequest(Named, frozen=True, kw_only=True):
    """The namespace to look for."""


class CreateNamespaceRequest(Named, frozen=True, kw_only=True, omit_defaults=True):
    """A new namespace."""

    mode: Annotated[str | None, Meta(description="Create, ExistOk or Overwrite, in any case.")] = None
    properties: Properties | None = None


class DropNamespaceRequest(Named, frozen=True, kw_only=True, omit_defaults=True):
    """What to do if the namespace does not exist or is not empty."""

    mode: Annotated[str | None, Meta(description="Fail or Skip, in any case.")] = None
    behavior: Annotated[str | None, Meta(description="Restrict or Cascade, in any case.")] = None


class NamespaceProperties(msgspec.Struct, frozen=True, kw_only=True):
    """A namespace's properties."""

    properties: Properties


class ListNamespacesResponse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The names of namespaces inside the requested one."""

    namespaces: list[str]
    page_token: str | None = None


class ListTablesResponse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The names of tables."""

    tables: list[str]
    page_token: str | None = None


class DeclareTableRequest(Named, frozen=True, kw_only=True, omit_defaults=True):
    """A table without a version."""

    location: Annotated[str | None, Meta(description="The table's location. By default the catalog assigns one.")] = (
        None
    )
    vend_credentials: bool | None = None
    properties: Properties | None = None


class DeclareTableResponse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The location of the table. The catalog manages its versions."""

    transaction_id: str | None = None
    location: str
    storage_options: Properties | None = None
    properties: Properties
    managed_versioning: bool


class DescribeTableRequest(Named, frozen=True, kw_only=True, omit_defaults=True):
    """The version to describe, and how much to return."""

    version: Count | None = None
    tag: str | None = None
    branch: str | None = None
    with_table_uri: bool | None = None
    load_detailed_metadata: bool | None = None
    check_declared: bool | None = None
    vend_credentials: bool | None = None


class TableBasicStats(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of fragments and of deleted rows."""

    num_deleted_rows: Count
    num_fragments: Count


class DescribeTableResponse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A table."""

    table: str
    namespace: list[str]
    version: Count | None = None
    location: str
    table_uri: str | None = None
    schema: Annotated[dict[str, Any] | None, Meta(description="The Arrow schema as JSON.")] = None
    stats: TableBasicStats | None = None
    metadata: Properties | None = None
    properties: Properties
    storage_options: Properties | None = None
    managed_versioning: bool
    is_only_declared: bool | None = None


class TableExistsRequest(Named, frozen=True, kw_only=True, omit_defaults=True):
    """The version to look for."""

    version: Count | None = None


class DeregisterTableRequest(Named, frozen=True, kw_only=True):
    """The table to deregister."""


class DropTableRequest(Named, frozen=True, kw_only=True):
    """The table to drop."""


class RegisterTableRequest(Named, frozen=True, kw_only=True, omit_defaults=True):
    """An existing dataset."""

    location: str
    mode: Annotated[str | None, Meta(description="Create or Overwrite, in any case.")] = None
    properties: Properties | None = None


class RegisterTableResponse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The location of the table."""

    transaction_id: str | None = None
    location: str
    properties: Properties


class RenameTableRequest(Named, frozen=True, kw_only=True, omit_defaults=True):
    """The new name and, optionally, the new namespace."""

    new_table_name: str
    new_namespace_id: list[str] | None = None


class RenameTableResponse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The rename was carried out."""

    transaction_id: str | None = None


class TableGone(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The table as it was before."""

    transaction_id: str | None = None
    id: list[str]
    location: str
    properties: Properties


class CreateTableVersionRequest(Named, frozen=True, kw_only=True, omit_defaults=True):
    """The next version of a table. Its manifest is already staged in the table's folder."""

    version: Int64
    manifest_path: Annotated[str, Meta(description="The path from the root of the store, without a leading slash.")]
    manifest_size: Count | None = None
    e_tag: str | None = None
    metadata: Properties | None = None
    naming_scheme: Annotated[str | None, Meta(description="V1 or V2.")] = None
    branch: str | None = None


class TableVersion(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One version of a table."""

    version: Count
    manifest_path: str
    manifest_size: Count | None = None
    e_tag: str | None = None
    timestamp_millis: Int64 | None = None
    metadata: Properties | None = None
    naming_scheme: str | None = None


class CreateTableVersionResponse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The version as recorded."""

    transaction_id: str | None = None
    version: TableVersion


class DescribeTableVersionRequest(Named, frozen=True, kw_only=True, omit_defaults=True):
    """The version to describe. The default is the newest."""

    version: Count | None = None
    branch: str | None = None


class DescribeTableVersionResponse(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a table."""

    version: TableVersion


class ListTableVersionsResponse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Versions of a table."""

    versions: list[TableVersion]
    page_token: str | None = None


class VersionRange(msgspec.Struct, frozen=True, kw_only=True):
    """Versions from `start_version` up to, but not including, `end_version`. An end of -1 means through the latest."""

    start_version: Int64
    end_version: Int64


class BatchDeleteTableVersionsRequest(Named, frozen=True, kw_only=True, omit_defaults=True):
    """The versions to delete."""

    ranges: list[VersionRange]
    branch: str | None = None


class BatchDeleteTableVersionsResponse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The number of deleted versions."""

    deleted_count: Count
    transaction_id: str | None = None


class BatchCreateTableVersionsRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Versions of several tables. Each entry names its table."""

    entries: list[CreateTableVersionRequest]


class BatchCreateTableVersionsResponse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The versions, in the order of the entries."""

    transaction_id: str | None = None
    versions: list[TableVersion]


class CommitTableOperation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One operation. Exactly one field must be set."""

    declare_table: DeclareTableRequest | None = None
    create_table_version: CreateTableVersionRequest | None = None
    delete_table_versions: BatchDeleteTableVersionsRequest | None = None
    deregister_table: DeregisterTableRequest | None = None


class CommitTableResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of one operation."""

    declare_table: DeclareTableResponse | None = None
    create_table_version: CreateTableVersionResponse | None = None
    delete_table_versions: BatchDeleteTableVersionsResponse | None = None
    deregister_table: TableGone | None = None


class BatchCommitTablesRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Operations to commit together."""

    operations: list[CommitTableOperation]


class BatchCommitTablesResponse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The results of the operations, in order."""

    transaction_id: str | None = None
    results: list[CommitTableResult]
