"""Wire structs of tables and views."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from moorage.api.unity.api import SINCE
from moorage.api.unity.columns import ColumnInfo
from moorage.api.unity.shapes import Location, Name, Properties, Stamped, Text

DataSourceFormat = Literal["DELTA", "ICEBERG", "PARQUET", "CSV", "JSON", "AVRO", "ORC", "TEXT"]
TableType = Literal["MANAGED", "EXTERNAL", "VIEW", "METRIC_VIEW"]

RetentionDays = Annotated[
    int,
    Meta(
        ge=1,
        le=2**31 - 1,
        description="The number of days that history is kept. If omitted, the server decides.",
        extra_json_schema={"x-uc-stage": "public_preview", "x-uc-since": SINCE},
    ),
]


class TableDependency(msgspec.Struct, frozen=True, kw_only=True):
    """A table that a view reads."""

    table_full_name: str


class FunctionDependency(msgspec.Struct, frozen=True, kw_only=True):
    """A function that a view calls."""

    function_full_name: str


class Dependency(msgspec.Struct, frozen=True, kw_only=True):
    """A dependency of a view: a table or a function."""

    table: TableDependency | None = None
    function: FunctionDependency | None = None


class DependencyList(msgspec.Struct, frozen=True, kw_only=True):
    """The dependencies of a view."""

    dependencies: list[Dependency] | None = None


class CreateTable(msgspec.Struct, frozen=True, kw_only=True):
    """The table or view to create."""

    name: Name
    catalog_name: str
    schema_name: str
    table_type: TableType
    data_source_format: DataSourceFormat | None = None
    columns: list[ColumnInfo] | None = None
    storage_location: Location | None = None
    comment: Text | None = None
    properties: Properties | None = None
    view_definition: Annotated[str | None, Meta(description="The SQL text of a view.")] = None
    view_dependencies: DependencyList | None = None
    retention_days: RetentionDays | None = None


class UpdateTable(msgspec.Struct, frozen=True, kw_only=True):
    """Changes to a table or view. A field that is absent stays unchanged."""

    comment: Text | None = None
    owner: Name | None = None
    properties: Annotated[
        Properties | None, Meta(description="Replaces all properties. An empty map changes nothing.")
    ] = None
    new_name: Name | None = None
    retention_days: Annotated[
        RetentionDays | UnsetType | None, Meta(description="Null restores the server's default.")
    ] = UNSET


class TableInfo(Stamped, frozen=True, kw_only=True):
    """A table or view. Columns and properties are never null: Spark would fail."""

    name: str
    catalog_name: str
    schema_name: str
    table_type: TableType
    data_source_format: Annotated[
        str | None,
        Meta(description="Null for a view, and for a format that the client cannot decode; see `table_format`."),
    ]
    table_format: Annotated[
        str | None, Meta(description="The format, for every client: delta, iceberg, lance, parquet. Null for a view.")
    ]
    columns: list[ColumnInfo]
    storage_location: str | None
    comment: str | None
    properties: Properties
    table_id: str
    view_definition: str | None
    view_dependencies: DependencyList | None
    retention_days: RetentionDays | UnsetType = UNSET


class ListTablesResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A page of tables. Without a token it is the last page."""

    tables: list[TableInfo]
    next_page_token: str | None
