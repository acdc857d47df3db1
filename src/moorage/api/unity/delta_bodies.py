"""Wire structs of Delta commits, for the specification and for the earlier preview API."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from moorage.api.unity.shapes import Text
from moorage.core.errors import InvalidInput
from moorage.formats.delta import columns as delta
from moorage.formats.delta import uniform as delta_uniform
from moorage.formats.delta.commit_check import Proposal
from moorage.formats.delta.metrics import CommitReport, Histogram
from moorage.formats.delta.stated_metadata import StatedMetadata
from moorage.http import Int64
from moorage.usecases.delta.commits import CommitRequest
from moorage.usecases.delta.history import RatifiedCommit

TableIdText = Annotated[str | None, Meta(description="The id of the table, a UUID.")]
TableUri = Annotated[str | None, Meta(description="The location of the table, in any equivalent spelling.")]
T = TypeVar("T")


class DeltaCommitInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A staged commit: a file in `_delta_log/_staged_commits/`."""

    version: Int64
    timestamp: Annotated[Int64, Meta(description="The in-commit timestamp, in milliseconds since 1970.")]
    file_name: str
    file_size: Int64
    file_modification_timestamp: Int64


class DeltaFormat(msgspec.Struct, frozen=True, kw_only=True):
    """The format of the data files."""

    provider: str | None = None
    options: dict[str, str] | None = None


class DeltaColumn(msgspec.Struct, frozen=True, kw_only=True):
    """A column as Unity describes it, or as {name, type, nullable}."""

    name: str | None = None
    type: Any = None
    type_text: str | None = None
    type_json: str | None = None
    type_name: str | None = None
    type_precision: Int64 | None = None
    type_scale: Int64 | None = None
    position: Int64 | None = None
    comment: Text | None = None
    nullable: bool | None = None
    partition_index: Int64 | None = None


class DeltaColumns(msgspec.Struct, frozen=True, kw_only=True):
    """The columns, nested as in the preview API."""

    columns: list[DeltaColumn] | None = None


class DeltaMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """The table's metadata after the commit. It must agree with the staged file, which is the truth."""

    id: Annotated[str | None, Meta(description="The id of the metaData action.")] = None
    name: str | None = None
    description: Text | None = None
    provider: str | None = None
    options: dict[str, str] | None = None
    format: DeltaFormat | None = None
    schema: list[DeltaColumn] | DeltaColumns | None = None
    partition_columns: list[str] | None = None
    properties: Annotated[
        dict[str, str | dict[str, str]] | None,
        Meta(description="All properties, or the same nested under `properties`."),
    ] = None
    created_time: Int64 | None = None


class DeltaIceberg(msgspec.Struct, frozen=True, kw_only=True):
    """The location of the Iceberg metadata of this version."""

    metadata_location: str | None = None
    converted_delta_version: Int64 | None = None
    converted_delta_timestamp: Annotated[str | None, Meta(description="In ISO 8601. Returned as it was sent.")] = None
    base_converted_delta_version: Int64 | None = None


class DeltaUniform(msgspec.Struct, frozen=True, kw_only=True):
    """Metadata in other formats that the client wrote."""

    iceberg: DeltaIceberg | None = None


class DeltaCommit(msgspec.Struct, frozen=True, kw_only=True):
    """A commit to ratify, a version up to which the client published, or both."""

    table_id: TableIdText = None
    table_uri: TableUri = None
    commit_info: DeltaCommitInfo | None = None
    latest_published_version: Int64 | None = None
    latest_backfilled_version: Annotated[
        Int64 | None, Meta(description="The name of `latest_published_version` in the preview API.")
    ] = None
    metadata: DeltaMetadata | None = None
    uniform: DeltaUniform | None = None

    def to_request(self) -> CommitRequest:
        if not self.table_uri:
            raise InvalidInput("table_uri is required", field="table_uri")
        uniform = self.uniform.iceberg if self.uniform is not None else None
        return CommitRequest(
            table_id=self.table_id,
            table_uri=self.table_uri,
            proposal=None if self.commit_info is None else _proposal(self.commit_info),
            published=self._published(),
            stated=None if self.metadata is None else _stated_metadata(self.metadata),
            uniform=None if uniform is None else _convert(uniform, delta_uniform.IcebergBlock),
            has_uniform=self.uniform is not None,
        )

    def _published(self) -> int | None:
        published, backfilled = self.latest_published_version, self.latest_backfilled_version
        if published is None or backfilled is None:
            return backfilled if published is None else published
        if published != backfilled:
            raise InvalidInput(
                "latest_published_version and latest_backfilled_version are names of one field and must be equal",
                field="latest_published_version",
            )
        return published


class GetDeltaCommits(msgspec.Struct, frozen=True, kw_only=True):
    """The requested commits, in the query or in the body. Delta's own clients send a body."""

    table_id: TableIdText = None
    table_uri: TableUri = None
    start_version: Annotated[Int64 | None, Meta(description="The first version. The default is 0.")] = None
    end_version: Annotated[Int64 | None, Meta(description="The last version. The default is the latest.")] = None

    def merged_with(self, query: GetDeltaCommits) -> GetDeltaCommits:
        """Merge body and query. They must not contradict each other, because a proxy may have checked either."""
        merged = {}
        for field in self.__struct_fields__:
            in_body, in_query = getattr(self, field), getattr(query, field)
            if in_body is not None and in_query is not None and in_body != in_query:
                raise InvalidInput(f"{field} differs between the body and the query; send it once", field=field)
            merged[field] = in_query if in_body is None else in_body
        return GetDeltaCommits(**merged)


class DeltaCommits(msgspec.Struct, frozen=True, kw_only=True):
    """Commits that may not be published yet, without a gap. If the last is below the latest, request the next page."""

    commits: list[DeltaCommitInfo]
    latest_table_version: Annotated[
        Int64, Meta(description="-1 if the catalog does not ratify the commits of the table.")
    ]


class DeltaHistogram(msgspec.Struct, frozen=True, kw_only=True):
    """Files and bytes by file size."""

    sorted_bin_boundaries: list[Int64] | None = None
    file_counts: list[Int64] | None = None
    total_bytes: list[Int64] | None = None


class DeltaCommitReport(msgspec.Struct, frozen=True, kw_only=True):
    """The effects of one commit."""

    num_files_added: Int64 | None = None
    num_bytes_added: Int64 | None = None
    num_clustered_bytes_added: Int64 | None = None
    num_files_removed: Int64 | None = None
    num_bytes_removed: Int64 | None = None
    num_clustered_bytes_removed: Int64 | None = None
    num_rows_inserted: Int64 | None = None
    num_rows_removed: Int64 | None = None
    num_rows_updated: Int64 | None = None
    file_size_histogram: DeltaHistogram | None = None
    commit_version: Int64 | None = None

    def to_report(self) -> CommitReport:
        fields = {field: getattr(self, field) for field in self.__struct_fields__}
        fields["file_size_histogram"] = None
        if (bins := self.file_size_histogram) is not None:
            fields["file_size_histogram"] = Histogram(
                sorted_bin_boundaries=tuple(bins.sorted_bin_boundaries or ()),
                file_counts=tuple(bins.file_counts or ()),
                total_bytes=tuple(bins.total_bytes or ()),
            )
        return CommitReport(**fields)


class DeltaReport(msgspec.Struct, frozen=True, kw_only=True):
    """The metrics of a request."""

    commit_report: DeltaCommitReport | None = None


class DeltaMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """A report on a commit."""

    table_id: TableIdText = None
    table_uri: TableUri = None
    report: DeltaReport | None = None


def _proposal(info: DeltaCommitInfo) -> Proposal:
    return Proposal(
        version=info.version,
        timestamp_ms=info.timestamp,
        file_name=info.file_name,
        file_size=info.file_size,
        file_modified_ms=info.file_modification_timestamp,
    )


def _stated_metadata(metadata: DeltaMetadata) -> StatedMetadata:
    if metadata == DeltaMetadata():
        raise InvalidInput("metadata is empty; state at least one field or leave it out", field="metadata")
    columns = metadata.schema.columns if isinstance(metadata.schema, DeltaColumns) else metadata.schema
    return StatedMetadata(
        metadata_id=metadata.id,
        description=metadata.description,
        provider=metadata.provider or (metadata.format.provider if metadata.format is not None else None),
        columns=None if columns is None else tuple(_convert(column, delta.ColumnInfo) for column in columns),
        partition_columns=None if metadata.partition_columns is None else tuple(metadata.partition_columns),
        properties=None if metadata.properties is None else _flat(metadata.properties),
    )


def _flat(properties: dict[str, str | dict[str, str]]) -> dict[str, str]:
    nested = properties.get("properties")
    if isinstance(nested, dict) and len(properties) == 1:
        return nested
    flat = {key: value for key, value in properties.items() if isinstance(value, str)}
    if len(flat) != len(properties):
        key = next(key for key in properties if key not in flat)
        raise InvalidInput(f"metadata.properties.{key} is not a string", field=f"metadata.properties.{key}")
    return flat


def _convert(wire: msgspec.Struct, kind: type[T]) -> T:
    return msgspec.convert(msgspec.to_builtins(wire), kind)


def commit_info(version: RatifiedCommit) -> DeltaCommitInfo:
    return DeltaCommitInfo(
        version=version.version,
        timestamp=version.timestamp_ms,
        file_name=version.file,
        file_size=version.size,
        file_modification_timestamp=version.details["modified_ms"],
    )
