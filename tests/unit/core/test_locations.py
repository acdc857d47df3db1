"""Locations: one form for each path, and which locations enclose which."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.core.errors import InvalidInput
from moorage.core.locations import enclosing_locations, normalize_location, range_inside

PART = st.text(alphabet=st.characters(exclude_characters="/", exclude_categories=["Cs"]), min_size=1).filter(
    lambda part: part not in (".", "..")
)
LOCATIONS = st.lists(PART, min_size=1, max_size=4).map(
    lambda parts: normalize_location("s3://bucket/" + "/".join(parts))
)


@pytest.mark.parametrize(
    ("path", "form"),
    [
        ("/data/lake", "file:///data/lake/"),
        ("file:///data/lake", "file:///data/lake/"),
        ("file:/data//lake/", "file:///data/lake/"),
        ("s3://bucket/a//b/", "s3://bucket/a/b/"),
        ("s3://bucket", "s3://bucket/"),
        ("s3://bucket/.hidden/..x", "s3://bucket/.hidden/..x/"),
    ],
)
def test_a_location_has_one_form(path: str, form: str) -> None:
    assert normalize_location(path) == form
    assert normalize_location(form) == form


@pytest.mark.parametrize("path", ["", "/", "s3://", "s3:///", "/a/../b", "s3://bucket/./a", "/a/.."])
def test_a_path_with_dot_segments_or_without_a_folder_is_refused(path: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        normalize_location(path)
    assert refusal.value.field == "location"


def test_the_enclosing_locations_are_all_folders_above() -> None:
    assert enclosing_locations("s3://b/x/y/") == ("s3://b/", "s3://b/x/", "s3://b/x/y/")
    assert enclosing_locations("file:///x/y/") == ("file:///x/", "file:///x/y/")


@given(LOCATIONS, LOCATIONS)
def test_a_location_encloses_another_exactly_if_it_is_its_prefix(one: str, other: str) -> None:
    first, end = range_inside(one)
    assert (one in enclosing_locations(other)) == other.startswith(one) == (first <= other < end)
