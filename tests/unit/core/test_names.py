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
def test_a_valid_name_is_kept_unchanged(name: str) -> None:
    assert require_name(name) == name


@pytest.mark.parametrize(
    ("name", "message"),
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
def test_an_invalid_name_is_refused_with_the_reason_and_the_field(name: str, message: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        require_name(name, "catalog_name")
    assert (refusal.value.message, refusal.value.field) == (message, "catalog_name")


def test_a_path_that_is_empty_or_too_deep_or_has_an_empty_name_is_refused() -> None:
    deepest = ("n",) * MAX_NAMESPACE_DEPTH
    assert require_path(deepest) == deepest
    for path in ((), (*deepest, "n"), ("a", "", "b")):
        with pytest.raises(InvalidInput):
            require_path(path)


@pytest.mark.parametrize(
    ("one", "other"),
    [("Orders", "oRDERS"), ("Straße", "STRASSE"), ("é", "e\u0301"), ("É", "e\u0301"), ("ﬁn", "FIN"), ("Σας", "ΣΑΣ")],
)
def test_names_that_differ_in_case_or_composition_are_equal(one: str, other: str) -> None:
    assert name_key(one) == name_key(other)


@pytest.mark.parametrize(("one", "other"), [("a", "á"), ("a", "a "), ("0", "O"), ("\u0131", "i"), ("t1", "t10")])
def test_different_names_have_different_keys(one: str, other: str) -> None:
    assert name_key(one) != name_key(other)


@given(st.text())
def test_a_key_is_its_own_key(name: str) -> None:
    assert name_key(name_key(name)) == name_key(name)


@given(st.text())
def test_composed_and_decomposed_characters_are_one_name(name: str) -> None:
    assert name_key(unicodedata.normalize("NFD", name)) == name_key(unicodedata.normalize("NFC", name))


@given(st.text(alphabet=st.characters(max_codepoint=127)))
def test_ascii_names_follow_the_same_rule_as_all_names(name: str) -> None:
    assert name_key(name) == unicodedata.normalize("NFC", name.casefold())


def test_unity_cannot_address_names_with_spaces_dots_or_slashes() -> None:
    assert [name for name in ("a b", "a.b", "a/b", "a-b", "ä$") if is_addressable_in_unity(name)] == ["a-b", "ä$"]
