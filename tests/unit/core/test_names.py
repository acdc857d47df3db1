"""Names: what is refused, and which names are the same."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.core.errors import InvalidInput
from moorage.core.names import (
    MAX_NAME_LENGTH,
    MAX_NAMESPACE_DEPTH,
    is_addressable_in_unity,
    name_key,
    require_name,
    require_path,
)


@pytest.mark.parametrize(
    "name", ["a", "Ünïcode 名前", "with space", "dot.ted", "sla/sh", "🜛", "x" * MAX_NAME_LENGTH, "$"]
)
def test_a_name_is_kept_as_it_was_given(name: str) -> None:
    assert require_name(name) == name


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("", "catalog_name is empty"),
        ("x" * (MAX_NAME_LENGTH + 1), "catalog_name has 256 characters; at most 255 are allowed"),
        ("a\nb", "catalog_name contains a control character"),
        ("\x00", "catalog_name contains a control character"),
        ("\x7f", "catalog_name contains a control character"),
        ("\x85", "catalog_name contains a control character"),
        ("\ud800", "catalog_name contains a control character"),
    ],
)
def test_a_name_that_is_refused_is_told_why_and_where(name: str, words: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        require_name(name, "catalog_name")
    assert (refusal.value.message, refusal.value.field) == (words, "catalog_name")


def test_a_path_is_neither_empty_nor_too_deep_nor_broken() -> None:
    deepest = ("n",) * MAX_NAMESPACE_DEPTH
    assert require_path(deepest) == deepest
    for path in ((), (*deepest, "n"), ("a", "", "b")):
        with pytest.raises(InvalidInput):
            require_path(path)


@pytest.mark.parametrize(
    ("one", "other"),
    [("Orders", "oRDERS"), ("Straße", "STRASSE"), ("é", "e\u0301"), ("É", "e\u0301"), ("ﬁn", "FIN"), ("Σας", "ΣΑΣ")],
)
def test_names_that_look_alike_are_one(one: str, other: str) -> None:
    assert name_key(one) == name_key(other)


@pytest.mark.parametrize(("one", "other"), [("a", "á"), ("a", "a "), ("0", "O"), ("\u0131", "i"), ("t1", "t10")])
def test_names_that_differ_stay_apart(one: str, other: str) -> None:
    assert name_key(one) != name_key(other)


@given(st.text())
def test_a_key_is_its_own_key(name: str) -> None:
    assert name_key(name_key(name)) == name_key(name)


@given(st.text())
def test_two_ways_to_write_the_same_characters_are_one_name(name: str) -> None:
    assert name_key(unicodedata.normalize("NFD", name)) == name_key(unicodedata.normalize("NFC", name))


@given(st.text(alphabet=st.characters(max_codepoint=127)))
def test_plain_names_take_no_other_way_than_the_rest(name: str) -> None:
    assert name_key(name) == unicodedata.normalize("NFC", name.casefold())


def test_unity_cannot_speak_names_that_its_paths_are_made_of() -> None:
    assert [name for name in ("a b", "a.b", "a/b", "a-b", "ä$") if is_addressable_in_unity(name)] == ["a-b", "ä$"]
