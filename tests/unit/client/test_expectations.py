"""Expectations without Spark: how rules are written."""

from __future__ import annotations

import pytest

from moorage.client.expectations import Expect, parse_rules


def test_a_predicate_alone_drops_rows() -> None:
    assert parse_rules({"a": "x > 0", "b": ("y > 0", "warn")}) == {"a": Expect("x > 0", "drop"), "b": ("y > 0", "warn")}


@pytest.mark.parametrize("rules", [{}, {"a": " "}, {"a": ("x > 0", "ignore")}])
def test_a_rule_without_predicate_or_with_another_action_is_refused(rules: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="expectation"):
        parse_rules(rules)
