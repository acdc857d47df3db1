"""Which snapshots and versions an expiry must keep for streams."""

from __future__ import annotations

from moorage.pipeline.stream_marks import Snapshot, marked_versions, oldest_of, snapshots_for_streams, snapshots_since

DAY_MS = 24 * 3600 * 1000


def chain(*queries: tuple[int, str | None]) -> tuple[dict[int, Snapshot], int]:
    """Snapshots by (day, query), the oldest first, and the newest of them."""
    made = {
        at: Snapshot(parent=at - 1 if at else None, at_ms=day * DAY_MS, query=query)
        for at, (day, query) in enumerate(queries)
    }
    return made, len(queries) - 1


def test_a_table_without_streams_keeps_nothing_for_them() -> None:
    assert snapshots_for_streams({}, None) == 0
    assert snapshots_for_streams(*chain((0, None), (1, None))) == 0


def test_the_last_batch_stays_behind_compactions() -> None:
    assert snapshots_for_streams(*chain((0, "a"), (1, "a"), (2, None), (3, None))) == 3
    assert snapshots_for_streams(*chain((0, "a"), (1, "a"))) == 1


def test_every_live_stream_counts_and_one_that_ended_long_ago_does_not() -> None:
    assert snapshots_for_streams(*chain((0, "a"), (1, "b"), (2, "b"))) == 3
    assert snapshots_for_streams(*chain((0, "a"), (99, "b"), (99, None))) == 2


def test_a_stream_that_is_the_only_one_is_live_however_old_it_is() -> None:
    assert snapshots_for_streams(*chain((0, "a"), (500, None), (501, None))) == 3


def test_the_snapshot_that_was_current_at_the_cutoff_stays_with_all_later_ones() -> None:
    made = chain((0, None), (1, None), (9, None))
    assert [snapshots_since(*made, day * DAY_MS) for day in (0, 1, 5, 9, 10)] == [3, 2, 2, 1, 1]
    assert snapshots_since({}, None, 0) == 0


def test_no_snapshot_that_stays_is_older_than_the_time_before_which_the_others_expire() -> None:
    made = chain((0, None), (1, None), (9, None))
    assert [oldest_of(*made, count, 5 * DAY_MS) / DAY_MS for count in (0, 1, 2, 3, 4)] == [5, 5, 1, 0, 0]


def test_of_a_lance_table_the_version_with_the_newest_mark_of_each_live_application_stays() -> None:
    marks = [(9, 200, {}), (8, 199, {"m.a": "7"}), (7, 198, {"m.a": "6", "m.b": "1"}), (6, 100, {"m.c": "1", "x": ""})]
    found = [(version, day * DAY_MS, metadata) for version, day, metadata in marks]
    assert marked_versions(found, "m.") == {8, 7}
    assert marked_versions(found[3:], "m.") == {6}
    assert marked_versions(found, "n.") == set()
