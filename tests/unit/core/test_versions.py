"""Which version a writer may commit next, decided without a server."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from moorage.core.errors import InvalidInput, VersionTaken
from moorage.core.versions import Proposed, Verdict, is_behind, is_gap, may_repeat, ratify


class Row(NamedTuple):
    file: str
    size: int = 10
    timestamp_ms: int = 7
    digest: str | None = "d"


def proposed(version: int, *, file: str = "mine", digest: str | None = None, size: int = 10) -> Proposed:
    return Proposed(version=version, file=file, size=size, timestamp_ms=7, digest=digest)


@pytest.mark.parametrize(
    ("head", "first", "following"), [(None, 0, 0), (None, 1, 1), (None, 9, 9), (0, 0, 1), (41, 1, 42)]
)
def test_the_version_after_the_head_is_ratified(head: int | None, first: int, following: int) -> None:
    assert ratify(head, proposed(following), first=first) is Verdict.NEXT
    assert not is_gap(head, following, first=first)
    assert not is_behind(head, following, first=first)


def test_a_gap_is_a_mistake_of_the_client_and_never_a_conflict() -> None:
    assert is_gap(3, 5)
    with pytest.raises(InvalidInput, match="version 5 skips 4; the latest is 3, so load it") as refusal:
        ratify(3, proposed(5), hint=", so load it")
    assert (refusal.value.field, refusal.value.details["latest"]) == ("version", 3)
    with pytest.raises(InvalidInput, match="the latest is none"):
        ratify(None, proposed(2), first=1)


def test_the_writer_that_lost_a_race_receives_a_conflict_with_the_latest_version() -> None:
    assert is_behind(3, 3)
    with pytest.raises(VersionTaken, match="version 3 is taken; the latest is 3") as refusal:
        ratify(3, proposed(3), Row("theirs"))
    assert refusal.value.details["latest"] == 3


def test_a_version_whose_record_was_deleted_is_taken_too() -> None:
    with pytest.raises(VersionTaken):
        ratify(3, proposed(2), None)


def test_the_same_file_is_a_replay_at_any_later_head() -> None:
    assert ratify(3, proposed(3), Row("mine")) is Verdict.REPLAY
    assert ratify(900, proposed(3), Row("mine")) is Verdict.REPLAY


def test_the_same_bytes_under_another_name_are_a_replay() -> None:
    assert may_repeat(Row("theirs"), proposed(3))
    assert ratify(3, proposed(3, digest="d"), Row("theirs")) is Verdict.REPLAY


@pytest.mark.parametrize(
    ("given", "row"),
    [
        (proposed(3, digest="e"), Row("theirs")),
        (proposed(3, digest=None), Row("theirs", digest=None)),
        (proposed(3, digest="d", size=11), Row("theirs")),
        (proposed(3, digest="d"), Row("theirs", timestamp_ms=8)),
    ],
)
def test_other_bytes_are_a_conflict(given: Proposed, row: Row) -> None:
    with pytest.raises(VersionTaken):
        ratify(3, given, row)


def test_no_file_is_read_for_a_commit_that_cannot_be_a_replay() -> None:
    assert not may_repeat(Row("mine"), proposed(3))
    assert not may_repeat(Row("theirs", size=11), proposed(3))
    assert not may_repeat(Row("theirs", timestamp_ms=8), proposed(3))
