"""Which versions and files are kept."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from moorage.core.errors import InvalidInput
from moorage.core.retention import DAY_MS, is_deletable, parse_interval, raised_floor, retention_ms


class Row(NamedTuple):
    version: int
    timestamp_ms: int


ROWS = [Row(version, version * 100) for version in range(10)]


@pytest.mark.parametrize(
    ("text", "ms"),
    [("interval 7 days", 7 * DAY_MS), ("168 hours", 7 * DAY_MS), ("INTERVAL 1 week 2 days", 9 * DAY_MS), ("0 days", 0)],
)
def test_intervals_are_read_as_delta_writes_them(text: str, ms: int) -> None:
    assert parse_interval(text) == ms


@pytest.mark.parametrize("text", ["", "7", "interval", "7 years", "7 days ago"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="not an interval"):
        parse_interval(text)


def test_a_request_can_lengthen_the_retention_but_not_shorten_it() -> None:
    assert retention_ms(None, None) == 7 * DAY_MS
    assert retention_ms(1, "interval 2 days") == 2 * DAY_MS
    assert retention_ms(3, "interval 2 days") == 3 * DAY_MS


@pytest.mark.parametrize(
    ("stated", "kept_days", "days"),
    [(None, 3, 3), (None, 30, 30), ("interval 2 days", 3, 3), ("interval 9 days", 3, 9)],
)
def test_the_longer_retention_of_the_two_that_a_table_states_applies(
    stated: str | None, kept_days: int, days: int
) -> None:
    assert retention_ms(None, stated, kept_days) == days * DAY_MS


def test_the_version_that_was_current_at_the_cutoff_is_kept() -> None:
    assert raised_floor(ROWS, 0, 350) == 3
    assert raised_floor(ROWS, 0, -1) == 0
    assert raised_floor(ROWS, 0, 10_000) == 9


def test_the_floor_never_sinks_and_never_passes_a_hold() -> None:
    assert raised_floor(ROWS, 5, 350) == 5
    assert raised_floor(ROWS, 0, 10_000, holds=(4, 7)) == 4
    assert raised_floor(ROWS, 5, 10_000, holds=(4,)) == 5


@pytest.mark.parametrize(
    ("path", "modified_ms", "deletable"),
    [
        ("a.parquet", 99, True),
        ("a.parquet", 100, False),
        ("needed.parquet", 1, False),
        ("p=1/a.parquet", 1, True),
        ("compact-x/y/a.parquet", 1, True),
        ("_change_data/c.parquet", 1, True),
        ("change-x/_change_data/c.parquet", 1, True),
        ("_delta_log/0.json", 1, False),
        ("_iceberg/m.json", 1, False),
        ("p=1/.hidden", 1, False),
    ],
)
def test_only_old_data_files_that_no_version_needs_are_deleted(path: str, modified_ms: int, *, deletable: bool) -> None:
    assert is_deletable(path, modified_ms, frozenset({"needed.parquet"}), 100) is deletable
