"""Tests cite the cases of tests/api/sharing/cases.md by name: each exists, and each case is cited."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "api" / "sharing"
CASES = FOLDER / "cases.md"
CITING_NAME = re.compile(r"test_case_([a-z])(\d+)(?:_(and|to)_([a-z])(\d+))?_")


def listed() -> list[str]:
    """The names of all cases."""
    return re.findall(r"^\| ([A-Z]\d+) \|", CASES.read_text(), re.MULTILINE)


def cited(text: str) -> Iterator[str]:
    """The cases that a file cites: in names such as test_case_a1_to_a4_…, and in table rows such as row("A1", …)."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                if found := CITING_NAME.match(name):
                    letter, first, kind, other, last = found.groups()
                    assert other in (None, letter)
                    numbers = range(int(first), int(last) + 1) if kind == "to" else (int(first), int(last or first))
                    yield from (f"{letter.upper()}{number}" for number in numbers)
            case ast.Call(func=ast.Name(id="row"), args=[ast.Constant(value=str(name)), *_]):
                yield name


def test_every_cited_case_exists_and_every_case_is_cited() -> None:
    names = listed()
    found = {name for path in FOLDER.glob("test_*.py") for name in cited(path.read_text())}
    assert len(names) == len(set(names)) == 181
    assert found - set(names) == set(), "cited, but not in cases.md"
    assert set(names) - found == set(), "not cited"
