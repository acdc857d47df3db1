"""The health of a table, from what is known about its files."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from moorage.core.health import (
    POLICY,
    TARGET_FILE_BYTES,
    Activity,
    Files,
    Policy,
    Problem,
    TableFacts,
    applied_policy,
    avoidable,
    due_work,
    findings,
    score,
    small_limit,
)

MB = 1024 * 1024
GOOD = TableFacts(version=3, files=40, bytes=40 * 128 * MB, rows=4_000_000)


def problems(facts: TableFacts) -> list[Problem]:
    return [found.problem for found in findings(facts)]


def test_a_table_without_problems_has_the_full_score() -> None:
    assert findings(GOOD) == ()
    assert score(findings(GOOD)) == 100


def test_thousands_of_small_files_are_due_for_compaction_with_the_reason() -> None:
    facts = replace(GOOD, files=5_000, small_files=5_000, avoidable_files=4_998)
    (found,) = findings(facts)
    assert (found.problem, found.work, found.severity) == (Problem.SMALL_FILES, "compact", 1.0)
    assert found.reason == "5,000 of 5,000 files are small; compaction would leave 4,998 files fewer"
    assert score([found]) == 0
    assert due_work([found]) == {"compact": [found]}


def test_two_small_files_are_mentioned_but_not_due() -> None:
    (found,) = findings(replace(GOOD, files=2, small_files=2, avoidable_files=1))
    assert not found.is_due
    assert due_work([found]) == {}


@pytest.mark.parametrize("small", [0, 1])
def test_the_last_file_of_a_compacted_group_is_not_avoidable(small: int) -> None:
    groups = [Files(count=3, bytes=300 * MB, small=small, small_bytes=small * MB)] * 1000
    assert avoidable(groups, TARGET_FILE_BYTES) == 0


def test_small_files_are_merged_within_their_group_only() -> None:
    assert avoidable([Files(count=10, small=10, small_bytes=10 * MB)] * 3, 128 * MB) == 27
    assert avoidable([Files(count=4, small=4, small_bytes=300 * MB)], 128 * MB) == 1


def test_files_of_the_target_size_are_not_small() -> None:
    assert small_limit(128 * MB) == 96 * MB


@pytest.mark.parametrize(
    ("facts", "problem", "work"),
    [
        (replace(GOOD, deleted_rows=1_000_000), Problem.DELETED_ROWS, "compact"),
        (replace(GOOD, delete_files=40), Problem.DELETE_FILES, "compact"),
        (replace(GOOD, versions_since_checkpoint=500), Problem.LONG_LOG, None),
        (replace(GOOD, versions_since_checkpoint=500, has_own_log=True), Problem.LONG_LOG, "checkpoint"),
        (replace(GOOD, unpublished=60), Problem.UNPUBLISHED, None),
        (replace(GOOD, files_without_statistics=30), Problem.MISSING_STATISTICS, None),
        (replace(GOOD, files_without_statistics=30, has_own_log=True), Problem.MISSING_STATISTICS, "statistics"),
        (replace(GOOD, unclustered_bytes=30 * 128 * MB), Problem.UNCLUSTERED, "compact"),
        (replace(GOOD, old_versions=90), Problem.OLD_VERSIONS, "expire"),
        (replace(GOOD, manifests=100, avoidable_manifests=99), Problem.MANY_MANIFESTS, "compact"),
        (replace(GOOD, unindexed_rows=2_000_000), Problem.STALE_INDEXES, "compact"),
    ],
)
def test_each_problem_is_found_and_names_the_work_that_mends_it(
    facts: TableFacts, problem: Problem, work: str | None
) -> None:
    (found,) = findings(facts)
    assert (found.problem, found.work) == (problem, work)
    assert found.is_due == (work is not None)
    assert 0 <= score([found]) < 75


def test_reports_of_clients_are_advice_and_never_due() -> None:
    activity = Activity(commits=40, files_added=400, bytes_added=400 * MB, scans=5, files_scanned=5 * 4000)
    found = findings(replace(GOOD, files=4_000, bytes=4_000 * 128 * MB, activity=activity))
    assert [each.problem for each in found] == [Problem.SMALL_COMMITS, Problem.WIDE_SCANS]
    assert due_work(found) == {}
    assert score(found) == 81


def test_deep_overlaps_are_advice_and_never_due() -> None:
    (found,) = findings(replace(GOOD, clustering_depth=GOOD.files * 0.75))
    assert (found.problem, found.is_due) == (Problem.OVERLAPPING, False)
    assert findings(replace(GOOD, clustering_depth=2.5)) == ()


def test_the_most_severe_problem_comes_first() -> None:
    facts = replace(GOOD, files=1000, small_files=900, avoidable_files=890, old_versions=40)
    assert problems(facts) == [Problem.SMALL_FILES, Problem.OLD_VERSIONS]


def test_an_empty_table_is_healthy() -> None:
    assert findings(TableFacts(version=0, files=0, bytes=0, rows=0)) == ()


def test_the_nearest_policy_applies() -> None:
    lake, orders = ("lake", {POLICY: "auto"}), ("orders", {POLICY: "OFF"})
    sales: tuple[str, dict[str, str]] = ("sales", {})
    assert applied_policy([lake, sales]).policy is Policy.AUTO
    assert applied_policy([lake, sales]).set_by == "lake"
    assert applied_policy([lake, sales, orders]).policy is Policy.OFF
    assert applied_policy([sales]).policy is Policy.ADVISE
    assert applied_policy([sales]).set_by is None


def test_an_invalid_policy_advises_and_says_so() -> None:
    found = applied_policy([("lake", {POLICY: "auto"}), ("sales", {POLICY: "often"})])
    assert found.policy is Policy.ADVISE
    assert found.problem == "moorage.upkeep.policy of 'sales' is 'often'; it must be off, advise or auto"
