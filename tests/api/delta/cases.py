"""The numbered cases of cases.md as parameters of tests. They record how Unity's own server responds."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.api.delta.delta_client import error_name


def row(number: int, what: str, *values: Any) -> Any:
    """The parameters of one case, with its number in the test id."""
    return pytest.param(*values, id=f"case {number}: {what}")


def refuses(answer: httpx.Response, status: int, *words: str) -> None:
    """Expect an error with this status. Words in capitals are error names; the body must contain the other words."""
    assert answer.status_code == status, f"{answer.status_code}: {answer.text}"
    names = [word for word in words if word.isupper() or word.endswith("Exception")]
    assert not names or error_name(answer) in names, answer.text
    for word in words:
        if word not in names:
            assert word in answer.text, answer.text


INVALID = ("INVALID_PARAMETER_VALUE", "InvalidParameterValueException")
