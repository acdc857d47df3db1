"""Revisions of a record: given fields are replaced, and the others stay."""

from __future__ import annotations

from moorage.core.revisions import Revision, apply_revision
from moorage.core.securables import Doc

DOC = Doc(comment="old", properties={"a": "1"}, details={"kept": 1, "gone": 2}, location="file:///x/")


def test_an_empty_revision_changes_nothing() -> None:
    assert apply_revision(DOC, Revision()) == DOC


def test_properties_are_replaced_as_a_whole() -> None:
    assert apply_revision(DOC, Revision(properties={"b": "2"})).properties == {"b": "2"}
    assert apply_revision(DOC, Revision(properties={})).properties == {}


def test_details_change_individually_and_none_removes_one() -> None:
    assert apply_revision(DOC, Revision(details={"gone": None, "new": 3})).details == {"kept": 1, "new": 3}


def test_the_comment_and_the_location_are_independent() -> None:
    after = apply_revision(DOC, Revision(comment=""))
    assert (after.comment, after.location) == ("", "file:///x/")
