"""Tests cite the cases of tests/api/delta/cases.md by number: each number exists, and each case is cited or excused."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

APIS = Path(__file__).resolve().parents[1] / "api"
CASES = APIS / "delta" / "cases.md"
CITING_NAME = re.compile(r"test_case_(\d+)(?:_(and|to)_(\d+))?_")


def listed() -> tuple[list[int], dict[int, str]]:
    """The numbers of all cases, and for each case that no test cites the reason."""
    cases, untested = CASES.read_text().split("## Not tested")
    numbers = [int(number) for number in re.findall(r"^\| (\d+) \|", cases, re.MULTILINE)]
    reasons = re.findall(r"^\| (\d+) \| (.+) \|$", untested, re.MULTILINE)
    return numbers, {int(number): reason for number, reason in reasons}


def cited(text: str) -> Iterator[int]:
    """The cases that a file cites: in names such as test_case_68_to_72_…, and in table rows such as row(9, …)."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                if found := CITING_NAME.match(name):
                    first, last = int(found[1]), int(found[3] or found[1])
                    yield from range(first, last + 1) if found[2] == "to" else (first, last)
            case ast.Call(func=ast.Name(id="row"), args=[ast.Constant(value=int(number)), *_]):
                yield number


def test_a_test_name_or_a_row_cites_all_its_cases() -> None:
    text = "def test_case_2_a(): ...\ndef test_case_4_to_6_a(): ...\ndef test_case_8_and_10_a(): ...\nrow(12, 'a')\n"
    assert sorted(set(cited(text))) == [2, 4, 5, 6, 8, 10, 12]


def test_every_cited_case_exists_and_every_case_is_cited_or_excused() -> None:
    numbers, untested = listed()
    tests = [path for api in ("delta", "unity") for path in (APIS / api).glob("test_*.py")]
    found = {number for path in tests for number in cited(path.read_text())}
    assert len(numbers) == len(set(numbers)) == 174
    assert found - set(numbers) == set(), "cited, but not in cases.md"
    assert set(numbers) - found == set(untested), "neither cited nor under 'Not tested', or both"
