"""Which drafts may share a batch."""

from collections import deque
from typing import NamedTuple

import pytest

from moorage import fresh
from moorage.core.entries import (
    AccessIs,
    Draft,
    Empty,
    FinishJob,
    FloorAtMost,
    HeadIs,
    JobFree,
    JobHeld,
    JobState,
    Live,
    LocationFree,
    RevisionIs,
)
from moorage.core.securables import MAIN, Kind
from moorage.ledger.batch import FULL_BATCH_BYTES, LARGEST_BATCH, LOOK_AHEAD, Footprint, footprint, take_batch
from moorage.testing import builders as make

T, U, NS = fresh.securable_id(), fresh.securable_id(), fresh.securable_id()
JOB = fresh.job_id()
FINISH = FinishJob(job=JOB, state=JobState.SUCCEEDED)
SAME_ID = fresh.draft_id()
NEW = make.namespace(NS, "new")


class Waiting(NamedTuple):
    draft: Draft
    footprint: Footprint
    size: int = 100


def queue_of(*drafts: Draft) -> deque[Waiting]:
    return deque(Waiting(draft, footprint(draft)) for draft in drafts)


def batches(*drafts: Draft) -> list[list[int]]:
    """The drafts' numbers, batch by batch."""
    number = {id(draft): n for n, draft in enumerate(drafts)}
    waiting = queue_of(*drafts)
    taken = []
    while waiting:
        taken.append([number[id(one.draft)] for one in take_batch(waiting)])
    return taken


CONFLICTING = {
    "commits of one line": (make.draft(make.commit(T, 1)), make.draft(make.commit(T, 2))),
    "a head that moves": (make.draft(make.commit(T, 1)), make.draft(make.commit(U, 1), expects=[HeadIs(T, MAIN, 0)])),
    "a floor that rises": (
        make.draft(make.raise_floor(T, 3)),
        make.draft(make.commit(U, 1), expects=[FloorAtMost(T, MAIN, 2)]),
    ),
    "versions that are dropped": (
        make.draft(make.drop_versions(T, 0, 3)),
        make.draft(make.commit(U, 1), expects=[HeadIs(T, MAIN, 3)]),
    ),
    "a line that ends": (make.draft(make.drop_line(T, "dev")), make.draft(make.commit(T, 1, ref="dev"))),
    "creations of one name": (make.draft(make.table(NS, "a")), make.draft(make.table(NS, "A"))),
    "a table and a view of one name": (
        make.draft(make.table(NS, "a")),
        make.draft(make.create(Kind.VIEW, NS, "a")),
    ),
    "a parent that is being created": (make.draft(NEW), make.draft(make.table(NEW.id, "a"), expects=[Live(NEW.id)])),
    "a child in a parent that must be empty": (make.draft(make.table(NS, "a")), make.draft(NEW, expects=[Empty(NS)])),
    "one location": (
        make.draft(make.table(NS, "a", path="s3://b/x/")),
        make.draft(make.table(NS, "b", path="s3://b/x/")),
    ),
    "a location inside another": (
        make.draft(make.table(NS, "a", path="s3://b/x/y/z/")),
        make.draft(make.table(NS, "b"), expects=[LocationFree("s3://b/x/")]),
    ),
    "updates of one object": (make.draft(make.update(T)), make.draft(make.update(T))),
    "a revision that grows": (make.draft(make.update(T)), make.draft(NEW, expects=[RevisionIs(T, 1)])),
    "access that changes": (make.draft(make.update(T, owner="bob")), make.draft(NEW, expects=[AccessIs(0)])),
    "a job that ends": (make.draft(FINISH), make.draft(NEW, expects=[JobHeld(JOB, None)])),
    "jobs of one purpose": (
        make.draft(jobs=[make.job(dedupe="compact t")]),
        make.draft(jobs=[make.job(dedupe="compact t")]),
    ),
    "a purpose that must be free": (
        make.draft(jobs=[make.job(dedupe="compact t")]),
        make.draft(NEW, expects=[JobFree("compact t")]),
    ),
    "an end that makes room for a job": (make.draft(jobs=[make.job(dedupe="compact t")]), make.draft(FINISH)),
    "one key": (
        make.draft(make.table(NS, "a"), key=make.idempotency_key("k")),
        make.draft(make.table(NS, "b"), key=make.idempotency_key("k")),
    ),
    "one draft twice": (make.draft(make.table(NS, "a"), id=SAME_ID), make.draft(make.table(NS, "b"), id=SAME_ID)),
    "a drop of something": (make.draft(make.drop(NS)), make.draft(make.commit(T, 1), expects=[HeadIs(T, MAIN, 0)])),
    "an undrop of something": (make.draft(make.undrop(NS, "n")), make.draft(make.table(U, "n"))),
    "a rename of something": (make.draft(make.rename(T, NS, "n")), make.draft(make.table(U, "n"))),
    "a purge": (make.draft(make.purge(T)), make.draft(make.commit(U, 1))),
    "an erasure": (make.draft(make.erase(T)), make.draft(make.table(NS, "b", path="s3://b/x/"))),
}


@pytest.mark.parametrize("pair", CONFLICTING.values(), ids=CONFLICTING)
def test_drafts_that_conflict_are_in_separate_batches(pair: tuple[Draft, Draft]) -> None:
    first, second = pair
    assert batches(first, second) == batches(second, first) == [[0], [1]]


INDEPENDENT = {
    "commits of different tables": (
        make.draft(make.commit(T, 1), expects=[HeadIs(T, MAIN, 0), AccessIs(0)]),
        make.draft(make.commit(U, 1), expects=[HeadIs(U, MAIN, 0), AccessIs(0)]),
    ),
    "commits of different lines": (make.draft(make.commit(T, 1)), make.draft(make.commit(T, 1, ref="branch"))),
    "children of one parent": (
        make.draft(make.table(NS, "a"), expects=[Live(NS)]),
        make.draft(make.table(NS, "b"), expects=[Live(NS)]),
    ),
    "one name on two shelves": (
        make.draft(make.table(NS, "a")),
        make.draft(make.create(Kind.VOLUME, NS, "a")),
    ),
    "neighbouring locations": (
        make.draft(make.table(NS, "a", path="s3://b/x/1/")),
        make.draft(make.table(NS, "b", path="s3://b/x/10/")),
    ),
    "one key of two callers": (
        make.draft(make.table(NS, "a"), key=make.idempotency_key("k"), caller="ann"),
        make.draft(make.table(NS, "b"), key=make.idempotency_key("k"), caller="bob"),
    ),
    "jobs of different purposes": (
        make.draft(jobs=[make.job(dedupe="compact t")]),
        make.draft(jobs=[make.job(dedupe="compact u")]),
    ),
}


@pytest.mark.parametrize("pair", INDEPENDENT.values(), ids=INDEPENDENT)
def test_drafts_that_do_not_conflict_share_a_batch(pair: tuple[Draft, Draft]) -> None:
    assert batches(*pair) == [[0, 1]]


def test_no_draft_overtakes_a_waiting_draft_that_it_conflicts_with() -> None:
    # Draft 1 waits for draft 0 because of T, and draft 2 must not overtake draft 1 because of U.
    assert batches(
        make.draft(make.commit(T, 1)),
        make.draft(make.commit(T, 2), make.commit(U, 1)),
        make.draft(make.commit(U, 2)),
        make.draft(make.table(NS, "a")),
    ) == [[0, 3], [1], [2]]


def test_no_draft_overtakes_a_draft_that_needs_a_batch_of_its_own() -> None:
    assert batches(make.draft(make.commit(T, 1)), make.draft(make.drop(U)), make.draft(make.table(NS, "a"))) == [
        [0],
        [1],
        [2],
    ]


def test_a_batch_is_bounded_in_drafts_and_bytes() -> None:
    waiting = queue_of(*(make.draft(make.commit(fresh.securable_id(), 1)) for _ in range(LARGEST_BATCH + 1)))
    assert len(take_batch(waiting)) == LARGEST_BATCH
    large = [make.draft(make.commit(fresh.securable_id(), 1)) for _ in range(3)]
    heavy = deque(Waiting(draft, footprint(draft), FULL_BATCH_BYTES // 2) for draft in large)
    assert len(take_batch(heavy)) == 2


def test_a_long_queue_for_one_table_is_not_searched_to_its_end() -> None:
    crowd = [make.draft(make.commit(T, n)) for n in range(LOOK_AHEAD)]
    behind = make.draft(make.commit(U, 1))
    waiting = queue_of(*crowd, behind)
    assert [one.draft for one in take_batch(waiting)] == [crowd[0]]
    assert [one.draft for one in take_batch(waiting)] == [crowd[1], behind]
