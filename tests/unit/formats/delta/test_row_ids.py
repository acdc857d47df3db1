"""Row ids: the catalog tracks the high-water mark, so that no two versions assign the same id."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.core.errors import InvalidInput
from moorage.formats.delta.actions import CommitFile, read_commit
from moorage.formats.delta.row_ids import next_high_water_mark
from tests.unit.formats.delta import commits as make


def new_file(path: str, base: int, rows: int = 10, version: int = 5) -> dict[str, Any]:
    return make.add(path, rows=rows, baseRowId=base, defaultRowCommitVersion=version)


def commit(*lines: dict[str, Any]) -> CommitFile:
    return read_commit(make.file_of(make.commit_info(), *lines))


def mark_after(*lines: dict[str, Any], mark: int | None = 99, tracked: bool = True) -> int | None:
    return next_high_water_mark(commit(*lines), mark, version=5, tracked=tracked)


def test_new_files_raise_the_mark_to_their_last_row() -> None:
    assert mark_after(new_file("b", 110), new_file("a", 100), make.high_water_mark(119)) == 119


def test_the_ids_of_a_table_without_a_mark_start_at_zero() -> None:
    assert mark_after(new_file("a", 0), make.high_water_mark(9), mark=None) == 9
    assert mark_after(mark=None) is None


def test_a_mark_may_leave_gaps() -> None:
    assert mark_after(new_file("a", 200), make.high_water_mark(1_000)) == 1_000


def test_a_commit_without_new_rows_keeps_the_mark() -> None:
    assert mark_after() == 99
    assert mark_after(make.remove("a")) == 99
    assert mark_after(new_file("a", 100, rows=0)) == 99


def test_a_file_that_existed_before_keeps_its_ids() -> None:
    delete = [make.remove("a"), make.add("a", deletionVector=make.vector(), baseRowId=3, defaultRowCommitVersion=2)]
    assert mark_after(*delete) == 99


def test_a_table_that_does_not_track_rows_needs_no_ids() -> None:
    assert mark_after(make.add("a"), mark=None, tracked=False) is None
    assert mark_after(make.add("a"), tracked=False) == 99
    assert mark_after(make.domain("delta.rowTracking", {}, removed=True), tracked=False) is None


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (
            [new_file("a", 99), make.high_water_mark(150)],
            "'a' starts at row id 99, which is not above the high-water mark 99",
        ),
        ([new_file("a", 0), make.high_water_mark(150)], "not above the high-water mark"),
        ([new_file("a", 100), new_file("b", 109), make.high_water_mark(150)], "the row ids of 'b' start at 109"),
        ([new_file("a", 100), new_file("b", 100), make.high_water_mark(150)], "the row ids of 'b' start at 100"),
        ([new_file("a", 100)], "up to 109, but its high-water mark is 99"),
        ([new_file("a", 100), make.high_water_mark(108)], "up to 109, but its high-water mark is 108"),
        ([make.high_water_mark(98)], "must not decrease from 99 to 98"),
        ([make.add("a")], "needs baseRowId"),
        ([make.add("a", baseRowId=100)], "needs baseRowId and defaultRowCommitVersion"),
        (
            [new_file("a", 100, version=6), make.high_water_mark(150)],
            "has defaultRowCommitVersion 6, above the version 5",
        ),
        ([make.add("a", rows=None, baseRowId=100, defaultRowCommitVersion=5)], "needs numRecords"),
        ([make.domain("delta.rowTracking", {})], "has no rowIdHighWaterMark"),
        ([make.domain("delta.rowTracking", {"rowIdHighWaterMark": 2**63})], "has no rowIdHighWaterMark"),
        ([make.domain("delta.rowTracking", {}, removed=True)], "cannot be removed while"),
    ],
)
def test_ids_that_could_be_assigned_twice_are_refused(lines: list[dict[str, Any]], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        mark_after(*lines)


@given(st.lists(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9)), max_size=3), max_size=6))
def test_no_sequence_of_accepted_commits_assigns_one_id_to_two_rows(commits: list[list[tuple[int, int]]]) -> None:
    mark: int | None = None
    assigned: set[int] = set()
    for version, files in enumerate(commits):
        adds = [new_file(f"{version}-{at}", base, rows, version) for at, (base, rows) in enumerate(files)]
        top = max([mark if mark is not None else -1, *(base + rows - 1 for base, rows in files)])
        try:
            mark = next_high_water_mark(commit(*adds, make.high_water_mark(top)), mark, version=version, tracked=True)
        except InvalidInput:
            continue
        ids = [row for base, rows in files for row in range(base, base + rows)]
        assert len(ids) == len(set(ids))
        assert assigned.isdisjoint(ids)
        assigned.update(ids)
