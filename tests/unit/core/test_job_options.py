"""The options of jobs about a table."""

from __future__ import annotations

from typing import Any

import pytest

from moorage.core.errors import InvalidInput
from moorage.core.job_options import CompactOptions, ExpireOptions, parse_options, require_options


@pytest.mark.parametrize(
    ("kind", "args"),
    [
        ("compact", {}),
        ("compact", {"target_file_size_mb": 8, "zorder_by": ["a", "b"], "where": "a > 1", "full": True}),
        ("expire", {"older_than_days": 0, "keep_last": 1}),
        ("orphans", {"older_than_days": 1, "dry_run": True}),
        ("compact", {"beside_writers": True}),
    ],
)
def test_valid_options_are_accepted(kind: str, args: dict[str, Any]) -> None:
    require_options(kind, args, "iceberg")


@pytest.mark.parametrize(
    ("kind", "args"),
    [
        ("compact", {"target_file_size_mb": 7}),
        ("compact", {"target_file_size_mb": "8"}),
        ("compact", {"zorder": ["a"]}),
        ("expire", {"older_than_days": -1}),
        ("expire", {"keep_last": 0}),
        ("orphans", {"older_than_days": 0.5}),
        ("orphans", {"dry_run": 1}),
    ],
)
def test_invalid_options_are_refused(kind: str, args: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        require_options(kind, args, "iceberg")


@pytest.mark.parametrize(
    ("of", "kind", "option", "value"),
    [
        ("delta", "compact", "where", "a > 1"),
        ("delta", "compact", "sort_by", ["a"]),
        ("lance", "compact", "zorder_by", ["a"]),
        ("lance", "compact", "full", True),
        ("lance", "compact", "beside_writers", True),
        ("iceberg", "expire", "dry_run", True),
    ],
)
def test_an_option_that_the_format_would_ignore_is_refused(of: str, kind: str, option: str, value: object) -> None:
    with pytest.raises(InvalidInput, match=f"{kind} jobs for {of} tables have no option '{option}'"):
        require_options(kind, {option: value}, of)


def test_a_program_ignores_arguments_that_are_no_options() -> None:
    assert parse_options({"reason": "small files", "full": True}, CompactOptions) == CompactOptions(full=True)
    assert parse_options({}, ExpireOptions) == ExpireOptions()
