"""A `match` on a change, an expectation or a kind ends with `assert_never`, so that mypy reports a missing case."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from moorage.core.entries import Change, Expect

SOURCE = Path(__file__).resolve().parents[2] / "src" / "moorage"
WATCHED = {kind.__name__ for kind in (*get_args(Change), *get_args(Expect))} | {"Kind"}
HOMES = {"moorage.core.entries", "moorage.core.securables"}


def open_matches(text: str) -> Iterator[int]:
    """The lines of matches on a watched type that do not end with `case _: assert_never(…)`."""
    if "match " not in text:
        return
    tree = ast.parse(text)
    imported = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module in HOMES
        for alias in node.names
        if alias.name in WATCHED
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Match) and imported & set(names_in(node)) and not is_closed(node):
            yield node.lineno


def names_in(match: ast.Match) -> Iterator[str]:
    """The names that its patterns begin with: `Create` of `Create(id=id)`, `Kind` of `Kind.TABLE`."""
    for case in match.cases:
        for node in ast.walk(case.pattern):
            if isinstance(node, ast.Name):
                yield node.id


def is_closed(match: ast.Match) -> bool:
    last = match.cases[-1]
    return ast.unparse(last.pattern) == "_" and ast.unparse(last.body[-1]).startswith("assert_never(")


def test_every_match_on_a_watched_type_ends_with_assert_never() -> None:
    found = [
        f"{path.relative_to(SOURCE)}:{line}" for path in SOURCE.rglob("*.py") for line in open_matches(path.read_text())
    ]
    assert found == []


@pytest.mark.parametrize(
    ("module", "pattern", "last", "lines"),
    [
        ("moorage.core.entries", "Drop(id=id)", "", [3]),
        ("moorage.core.entries", "Drop() | Rename()", "case _: pass", [3]),
        ("moorage.core.securables", "Kind.TABLE", "", [3]),
        ("moorage.core.entries", "Drop()", "case _: assert_never(x)", []),
        ("moorage.other", "Drop()", "", []),
    ],
)
def test_a_match_that_is_left_open_is_found(module: str, pattern: str, last: str, lines: list[int]) -> None:
    text = f"from {module} import Drop, Kind, Rename\ndef f(x):\n match x:\n  case {pattern}: pass\n  {last}\n"
    assert list(open_matches(text)) == lines
