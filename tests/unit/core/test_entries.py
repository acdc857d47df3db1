"""Drafts: what they leave behind, what they may hold, and that a story is read as it was written."""

from typing import get_args

import msgspec
import pytest

from moorage import fresh
from moorage.core.entries import Change, FinishJob, JobState, decode_body, encode_body, may_change_access
from moorage.core.ids import is_id
from moorage.core.jobs import retry_delay_ms
from moorage.testing import builders as make

T, NS = fresh.securable_id(), fresh.securable_id()
CHANGES: list[Change] = [
    make.table(NS, "t", path="s3://b/t"),
    make.stage(NS, "s3://b/s", lifetime_ms=5),
    make.update(T, comment="c", owner=make.BOB),
    make.published_commit(T, 1, details={"a": [1, None, {"b": 2.5}]}, digest="d", row_id_mark=7),
    make.raise_floor(T, 3),
    make.drop_versions(T, 1, 2),
    make.drop_line(T, "dev"),
    FinishJob(job=fresh.job_id(), state=JobState.FAILED, error="e", result={"n": 1}),
    make.rename(T, NS, "new"),
    make.drop(T),
    make.undrop(T, "back"),
    make.purge(T),
    make.erase(T, NS),
]


def test_every_kind_of_change_is_tried_here() -> None:
    assert {type(change) for change in CHANGES} == set(get_args(Change))


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: type(change).__name__)
def test_a_story_is_read_as_it_was_written(change: Change) -> None:
    job = make.job(subject=T, dedupe="d", args={"a": 1}, attempts=2, delay_ms=3)
    story = decode_body(encode_body(make.draft(change, jobs=[job])))
    assert (story.changes, story.jobs) == ((change,), (job,))


def test_a_word_that_this_code_does_not_know_is_not_passed_over() -> None:
    with pytest.raises(msgspec.ValidationError):
        decode_body(b'{"changes":[{"type":"conquer","id":"x"}]}')


def test_only_changes_and_jobs_make_history() -> None:
    assert not make.draft(key=make.idempotency_key("k")).makes_history
    assert make.draft(make.drop(T)).makes_history
    assert make.draft(jobs=[make.job()]).makes_history


def test_access_moves_with_an_owner_and_with_nothing_else() -> None:
    assert [type(change) for change in CHANGES if may_change_access(change)] == [type(CHANGES[2])]
    assert not may_change_access(make.update(T, comment="c"))


def test_a_job_rests_longer_after_each_failure_up_to_a_quarter_of_an_hour() -> None:
    delays = [retry_delay_ms(attempt) for attempt in range(1, 200)]
    assert delays[:4] == [5_000, 10_000, 20_000, 40_000]
    assert delays == sorted(delays)
    assert delays[-1] == 15 * 60_000
    assert retry_delay_ms(0) == 5_000


def test_ids_sort_by_the_time_of_their_making(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    for stamp in range(1_000, 1_010):
        monkeypatch.setattr("time.time_ns", lambda stamp=stamp: stamp * 10**9)
        made.append(fresh.securable_id())
    assert made == sorted(made)
    assert all(map(is_id, made))
    assert {id[14] for id in made} == {"7"}
    assert len(set(made)) == 10


def test_ids_of_one_moment_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time_ns", lambda: 2_000 * 10**9)
    made = [fresh.draft_id() for _ in range(1_000)]
    assert made == sorted(set(made))
    assert all(map(is_id, made))


@pytest.mark.parametrize(
    "text", ["", "x", "0190C0DE-0000-7000-8000-000000000000", "0190c0de00007000800000000000000000"]
)
def test_other_texts_are_no_ids(text: str) -> None:
    assert not is_id(text)
