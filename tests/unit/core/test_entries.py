"""Drafts, entry bodies and ids."""

from typing import get_args

import msgspec
import pytest
from msgspec.structs import replace

from moorage import fresh
from moorage.core.entries import (
    Change,
    FinishJob,
    JobState,
    decode_body,
    encode_body,
    may_change_access,
)
from moorage.core.ids import is_id
from moorage.core.jobs import retry_delay_ms
from moorage.testing import builders as make

T, NS = fresh.securable_id(), fresh.securable_id()
CHANGES: list[Change] = [
    make.table(NS, "t", path="s3://b/t"),
    make.stage(NS, "s3://b/s", lifetime_ms=5),
    make.update(T, comment="c", owner=make.BOB),
    make.set_grants(T, ann=["SELECT", "MODIFY"]),
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


def test_every_type_of_change_is_tested_here() -> None:
    assert {type(change) for change in CHANGES} == set(get_args(Change))


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: type(change).__name__)
def test_a_body_is_decoded_as_it_was_encoded(change: Change) -> None:
    job = make.job(subject=T, dedupe="d", args={"a": 1}, attempts=2, delay_ms=3)
    body = decode_body(encode_body(make.draft(change, jobs=[job])))
    assert (body.changes, body.jobs) == ((change,), (job,))


def test_an_unknown_type_of_change_is_an_error() -> None:
    with pytest.raises(msgspec.ValidationError):
        decode_body(b'{"changes":[{"type":"conquer","id":"x"}]}')


def test_only_changes_and_jobs_make_history() -> None:
    assert not make.draft(key=make.idempotency_key("k")).makes_history
    assert make.draft(make.drop(T)).makes_history
    assert make.draft(jobs=[make.job()]).makes_history


def test_only_owners_grants_and_marked_changes_may_change_access() -> None:
    assert [change for change in CHANGES if may_change_access(change)] == CHANGES[2:4]
    assert not may_change_access(make.update(T, comment="c"))
    assert may_change_access(replace(make.update(T, comment="c"), changes_access=True))
    assert may_change_access(replace(make.drop(T), changes_access=True))


def test_the_delay_of_a_job_grows_with_each_failure_up_to_fifteen_minutes() -> None:
    delays = [retry_delay_ms(attempt) for attempt in range(1, 200)]
    assert delays[:4] == [5_000, 10_000, 20_000, 40_000]
    assert delays == sorted(delays)
    assert delays[-1] == 15 * 60_000
    assert retry_delay_ms(0) == 5_000


def test_ids_sort_by_their_creation_time(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    for stamp in range(1_000, 1_010):
        monkeypatch.setattr("time.time_ns", lambda stamp=stamp: stamp * 10**9)
        made.append(fresh.securable_id())
    assert made == sorted(made)
    assert all(map(is_id, made))
    assert {id[14] for id in made} == {"7"}
    assert len(set(made)) == 10


def test_ids_of_one_moment_are_unique_and_sorted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time_ns", lambda: 2_000 * 10**9)
    made = [fresh.draft_id() for _ in range(1_000)]
    assert made == sorted(set(made))
    assert all(map(is_id, made))


@pytest.mark.parametrize(
    "text", ["", "x", "0190C0DE-0000-7000-8000-000000000000", "0190c0de00007000800000000000000000"]
)
def test_text_of_another_form_is_no_id(text: str) -> None:
    assert not is_id(text)
