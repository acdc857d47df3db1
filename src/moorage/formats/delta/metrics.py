"""Commit reports: what a client reports about its own commit. They are used only to schedule maintenance."""

from __future__ import annotations

from itertools import pairwise

import msgspec

from moorage.core.errors import InvalidInput


class Histogram(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """File counts and bytes by file size. Each bin begins at its boundary and ends before the next one."""

    sorted_bin_boundaries: tuple[int, ...] = ()
    file_counts: tuple[int, ...] = ()
    total_bytes: tuple[int, ...] = ()


class CommitReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The report of one commit. Values that were not counted are omitted."""

    num_files_added: int | None = None
    num_bytes_added: int | None = None
    num_clustered_bytes_added: int | None = None
    num_files_removed: int | None = None
    num_bytes_removed: int | None = None
    num_clustered_bytes_removed: int | None = None
    num_rows_inserted: int | None = None
    num_rows_removed: int | None = None
    num_rows_updated: int | None = None
    file_size_histogram: Histogram | None = None
    commit_version: int | None = None


def require_report(report: CommitReport, *, latest: int) -> int:
    """Check a report and return its version, which must exist in the table."""
    for field in report.__struct_fields__:
        value = getattr(report, field)
        if isinstance(value, int) and value < 0:
            raise _error(field, f"must not be negative, got {value}")
    if report.commit_version is None:
        raise _error("commit_version", "is required")
    if report.commit_version > latest:
        raise _error("commit_version", f"is {report.commit_version}, but the latest version is {latest}")
    if report.file_size_histogram is not None:
        _require_histogram(report.file_size_histogram)
    return report.commit_version


def _require_histogram(histogram: Histogram) -> None:
    bins, counts, sizes = histogram.sorted_bin_boundaries, histogram.file_counts, histogram.total_bytes
    name = "file_size_histogram"
    if not (bins or counts or sizes):
        return
    if not bins or bins[0] != 0:
        raise _error(f"{name}.sorted_bin_boundaries", "must begin with 0")
    if any(low >= high for low, high in pairwise(bins)):
        raise _error(f"{name}.sorted_bin_boundaries", "must be in ascending order without duplicates")
    for field, values in (("file_counts", counts), ("total_bytes", sizes)):
        if len(values) != len(bins):
            raise _error(f"{name}.{field}", f"must have {len(bins)} entries, one per bin, got {len(values)}")
        if any(value < 0 for value in values):
            raise _error(f"{name}.{field}", "must not be negative")


def _error(field: str, problem: str) -> InvalidInput:
    path = f"report.commit_report.{field}"
    return InvalidInput(f"{path} {problem}", field=path)
