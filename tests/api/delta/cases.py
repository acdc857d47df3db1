"""The numbered cases of cases.md, which Unity's own server was seen to answer, as rows of tables."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.api.delta.delta_client import error_name


def row(number: int, what: str, *values: Any) -> Any:
    """One case under its number."""
    return pytest.param(*values, id=f"case {number}: {what}")


def refuses(answer: httpx.Response, status: int, *words: str) -> None:
    """A refusal of this status, whose error is one of the words in capitals and tells of all others."""
    assert answer.status_code == status, f"{answer.status_code}: {answer.text}"
    names = [word for word in words if word.isupper() or word.endswith("Exception")]
    assert not names or error_name(answer) in names, answer.text
    for word in words:
        if word not in names:
            assert word in answer.text, answer.text


INVALID = ("INVALID_PARAMETER_VALUE", "InvalidParameterValueException")
