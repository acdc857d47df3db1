"""Commit reports."""

from __future__ import annotations

import msgspec

from moorage.api.delta.api import delta
from moorage.api.delta.bodies import EXAMPLE_ID, EXAMPLE_TABLE, table_at
from moorage.api.delta.load import MISSING
from moorage.core.errors import InvalidInput
from moorage.formats.delta.metrics import CommitReport, Histogram
from moorage.http import Answer, Call, Example, Int64, NoQuery
from moorage.usecases.delta.reports import store_report
from moorage.usecases.delta.updates import load_delta_table
from moorage.usecases.ports import Ports


class DeltaFileSizeHistogram(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """Files and bytes by file size, after a version."""

    sorted_bin_boundaries: list[Int64] | None = None
    file_counts: list[Int64] | None = None
    total_bytes: list[Int64] | None = None
    commit_version: Int64 | None = None


class DeltaCommitReport(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """The effects of one commit."""

    num_files_added: Int64 | None = None
    num_bytes_added: Int64 | None = None
    num_files_removed: Int64 | None = None
    num_bytes_removed: Int64 | None = None
    num_rows_inserted: Int64 | None = None
    num_rows_removed: Int64 | None = None
    num_rows_updated: Int64 | None = None
    file_size_histogram: DeltaFileSizeHistogram | None = None

    def to_report(self) -> CommitReport | None:
        """None if the report names no version, which is part of the histogram."""
        bins = self.file_size_histogram
        if bins is None or bins.commit_version is None:
            return None
        counts = {name: getattr(self, name) for name in self.__struct_fields__ if name.startswith("num_")}
        histogram = Histogram(
            sorted_bin_boundaries=tuple(bins.sorted_bin_boundaries or ()),
            file_counts=tuple(bins.file_counts or ()),
            total_bytes=tuple(bins.total_bytes or ()),
        )
        return CommitReport(**counts, file_size_histogram=histogram, commit_version=bins.commit_version)


class DeltaMetricsReport(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """The metrics of a request."""

    commit_report: DeltaCommitReport | None = None


class DeltaReportMetricsRequest(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """A report on a commit to the table with this id."""

    table_id: str
    report: DeltaMetricsReport | None = None


_EXAMPLE = {
    "table-id": EXAMPLE_ID,
    "report": {
        "commit-report": {
            "num-files-added": 1,
            "file-size-histogram": {
                "sorted-bin-boundaries": [0, 8192],
                "file-counts": [1, 0],
                "total-bytes": [1199, 0],
                "commit-version": 0,
            },
        }
    },
}


@delta.post(
    "/catalogs/{catalog}/schemas/{schema}/tables/{table}/metrics",
    operation="reportDeltaMetrics",
    summary="Report on a commit.",
    tags=("delta tables",),
    body=DeltaReportMetricsRequest,
    status=204,
    errors=(InvalidInput, *MISSING),
    keyed=False,
    example=Example(path=EXAMPLE_TABLE, body=_EXAMPLE),
)
async def report_metrics(call: Call[DeltaReportMetricsRequest, NoQuery], ports: Ports) -> Answer:
    """Report the effects of a commit, for the upkeep of the table. Only the first report on a version is stored."""
    body = call.body
    table = await load_delta_table(ports, call.caller, table_at(call.params))
    if body.table_id.lower() != table.id:
        raise InvalidInput(
            f"table-id is {body.table_id!r}, but '{table.name}' has the id '{table.id}'", field="table-id"
        )
    report = body.report.commit_report if body.report is not None else None
    await store_report(ports, call.caller, table.id, None, None if report is None else report.to_report())
    return Answer.empty()
