"""What the command line says when Spark fails."""

from __future__ import annotations

import pytest

from moorage.cli.spark_settings import reason_of

_FRAMES = """Traceback (most recent call last):
  File "/lib/moorage/client/transport.py", line 176, in _send
    raise error
    ^^^^^^^^^^^
"""
_MISSING = "moorage.client.errors.ClientError: version 99 does not exist; the latest is 1\n"


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (
            "[TABLE_OR_VIEW_NOT_FOUND] The table `t` cannot be found.\nline 1 pos 2",
            "[TABLE_OR_VIEW_NOT_FOUND] The table `t` cannot be found.",
        ),
        (
            f"[PYTHON_DATA_SOURCE_ERROR] Failed to create an instance: {_FRAMES}{_MISSING} SQLSTATE: 38000",
            "version 99 does not exist; the latest is 1",
        ),
        (
            f"\n  An exception was thrown from the worker.\n{_FRAMES}OSError: LanceError: a.b cannot contain `.`\n",
            "OSError: LanceError: a.b cannot contain `.`",
        ),
        (
            f"{_FRAMES}KeyError: 'x'\n\nDuring handling of it, another one:\n\n{_FRAMES}ValueError: 'x' is no column\n",
            "'x' is no column",
        ),
        ("Traceback (most recent call last):\n", "Traceback (most recent call last):"),
    ],
)
def test_the_reason_of_a_data_source_is_told(message: str, reason: str) -> None:
    """Its first line is the same for every error: that there is a stack below."""
    assert reason_of(message) == reason
