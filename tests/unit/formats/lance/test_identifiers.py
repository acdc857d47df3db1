"""Identifiers as text and as lists of names."""

from __future__ import annotations

import pytest

from moorage.core.errors import InvalidInput
from moorage.formats.lance.identifiers import agreed_identifier, parse_identifier, require_addressable, to_text


@pytest.mark.parametrize(
    ("text", "delimiter", "names"),
    [
        ("$", "$", ()),
        ("a", "$", ("a",)),
        ("a$b$c", "$", ("a", "b", "c")),
        ("a$b", ".", ("a$b",)),
        ("a::b", "::", ("a", "b")),
    ],
)
def test_text_and_names_say_the_same(text: str, delimiter: str, names: tuple[str, ...]) -> None:
    assert parse_identifier(text, delimiter) == names
    assert to_text(names, delimiter) == text


def test_a_name_with_the_delimiter_in_it_is_refused() -> None:
    assert require_addressable(["a", "b"], "$") == ("a", "b")
    with pytest.raises(InvalidInput, match="'b\\$c' contains the delimiter"):
        require_addressable(["a", "b$c"], "$")


def test_path_and_body_must_agree() -> None:
    assert agreed_identifier(("a", "b"), None) == agreed_identifier(("a", "b"), ["a", "b"]) == ("a", "b")
    for other in ([], ["a"], ["a", "B"], ["a$b"]):
        with pytest.raises(InvalidInput):
            agreed_identifier(("a", "b"), other)
