"""When upkeep waits for the writers of a table."""

from __future__ import annotations

from typing import NamedTuple

from moorage.core.quiet import CALM_MS, QUIET_MS, Wait, wait_for_quiet

NOW = 10 * CALM_MS


class Row(NamedTuple):
    operation: str
    at_ms: int
    seq: int = 7


def test_a_table_that_is_only_appended_to_is_rewritten_at_any_time() -> None:
    assert wait_for_quiet([Row("append", NOW), Row("metadata", NOW - 1)], NOW, NOW) is None
    assert wait_for_quiet([], None, NOW) is None


def test_a_table_whose_rows_change_is_rewritten_after_five_quiet_minutes() -> None:
    rows = [Row("append", NOW - 1000, 9), Row("change", NOW - QUIET_MS - 1, 8)]
    assert wait_for_quiet(rows, None, NOW) == Wait(until_ms=NOW - 1000 + QUIET_MS, seq=9)
    assert wait_for_quiet(rows[1:], None, NOW) is None


def test_a_change_long_ago_does_not_count() -> None:
    assert wait_for_quiet([Row("append", NOW), Row("change", NOW - CALM_MS)], None, NOW) is None


def test_rewrites_by_upkeep_are_not_waited_for() -> None:
    assert wait_for_quiet([Row("rewrite", NOW), Row("change", NOW - QUIET_MS)], None, NOW) is None


def test_write_access_that_was_given_out_counts_as_a_write() -> None:
    assert wait_for_quiet([Row("change", NOW - QUIET_MS)], NOW - 5, NOW) == Wait(until_ms=NOW - 5 + QUIET_MS, seq=None)
