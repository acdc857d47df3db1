"""Commit reports: a count may be zero, but not negative."""

from typing import Any

import msgspec
import pytest

from moorage.core.errors import InvalidInput
from moorage.formats.delta.metrics import CommitReport, require_report

SAMPLE: dict[str, Any] = {
    "num_files_added": 10,
    "num_bytes_added": 104857600,
    "num_clustered_bytes_added": 52428800,
    "num_files_removed": 2,
    "num_bytes_removed": 8192,
    "num_clustered_bytes_removed": 4096,
    "file_size_histogram": {
        "sorted_bin_boundaries": [0, 1024, 2048],
        "file_counts": [100, 40, 5],
        "total_bytes": [104857600, 167772160, 83886080],
    },
    "num_rows_inserted": 1000000,
    "num_rows_removed": 50000,
    "num_rows_updated": 25000,
    "commit_version": 6,
}
NUMBERS = [name for name, value in SAMPLE.items() if isinstance(value, int)]


def check(**changes: Any) -> int:
    return require_report(msgspec.convert(SAMPLE | changes, CommitReport), latest=6)


def refused_field(**changes: Any) -> str | None:
    with pytest.raises(InvalidInput) as caught:
        check(**changes)
    return caught.value.field


def bins(**changes: Any) -> dict[str, Any]:
    return {"file_size_histogram": SAMPLE["file_size_histogram"] | changes}


def test_the_sample_of_the_specification_is_accepted() -> None:
    assert check() == 6


@pytest.mark.parametrize("name", NUMBERS)
def test_zero_is_accepted_and_a_negative_count_is_refused(name: str) -> None:
    assert check(**{name: 0}) == (0 if name == "commit_version" else 6)
    assert refused_field(**{name: -1}) == f"report.commit_report.{name}"


def test_a_report_must_name_an_existing_version() -> None:
    assert refused_field(commit_version=None) == "report.commit_report.commit_version"
    assert refused_field(commit_version=7) == "report.commit_report.commit_version"


def test_counts_may_be_omitted() -> None:
    assert require_report(CommitReport(commit_version=3), latest=3) == 3
    assert check(file_size_histogram={}) == 6


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        (bins(sorted_bin_boundaries=[1, 1024, 2048]), "sorted_bin_boundaries"),
        (bins(sorted_bin_boundaries=[0, 2048, 1024]), "sorted_bin_boundaries"),
        (bins(sorted_bin_boundaries=[0, 1024, 1024]), "sorted_bin_boundaries"),
        (bins(sorted_bin_boundaries=[]), "sorted_bin_boundaries"),
        (bins(file_counts=[1, 2]), "file_counts"),
        (bins(file_counts=[1, 2, -3]), "file_counts"),
        (bins(total_bytes=[1, 2, 3, 4]), "total_bytes"),
        (bins(total_bytes=[1, -2, 3]), "total_bytes"),
    ],
)
def test_a_histogram_has_one_count_and_one_size_for_each_sorted_bin(changes: dict[str, Any], field: str) -> None:
    assert refused_field(**changes) == f"report.commit_report.file_size_histogram.{field}"
