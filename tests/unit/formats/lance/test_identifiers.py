"""Identifiers as strings and as lists of names."""

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
def test_an_identifier_is_parsed_and_written_with_its_delimiter(
    text: str, delimiter: str, names: tuple[str, ...]
) -> None:
    assert parse_identifier(text, delimiter) == names
    assert to_text(names, delimiter) == text


def test_a_name_that_contains_the_delimiter_is_refused() -> None:
    assert require_addressable(["a", "b"], "$") == ("a", "b")
    with pytest.raises(InvalidInput, match="'b\\$c' contains the delimiter"):
        require_addressable(["a", "b$c"], "$")


def test_an_identifier_in_the_body_must_equal_that_of_the_path() -> None:
    assert agreed_identifier(("a", "b"), None) == agreed_identifier(("a", "b"), ["a", "b"]) == ("a", "b")
    for other in ([], ["a"], ["a", "B"], ["a$b"]):
        with pytest.raises(InvalidInput):
            agreed_identifier(("a", "b"), other)
