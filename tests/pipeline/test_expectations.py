"""Expectations on real rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from moorage.client.expectations import Rules, accepted, counts, rejected

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark-pipeline")

RULES: Rules = {
    "id is known": "id IS NOT NULL",
    "amount is positive": ("amount > 0", "drop"),
    "amount is usual": ("amount < 100", "warn"),
}


def test_rows_are_accepted_or_rejected_and_all_are_counted(spark: SparkSession) -> None:
    rows = [(1, 5.0), (None, 5.0), (2, -1.0), (None, None), (3, 500.0)]
    frame = spark.createDataFrame(rows, "id long, amount double")
    kept, dropped = accepted(frame, RULES).collect(), rejected(frame, RULES).collect()
    assert sorted(row.id for row in kept) == [1, 3]
    assert len(kept) + len(dropped) == len(rows)
    assert sorted(sorted(row.broken) for row in dropped) == [
        ["amount is positive"],
        ["amount is positive", "id is known"],
        ["id is known"],
    ]
    found = {row.expectation: (row.action, row.fulfilled, row.broken) for row in counts(frame, RULES).collect()}
    assert found == {
        "id is known": ("drop", 3, 2),
        "amount is positive": ("drop", 3, 2),
        "amount is usual": ("warn", 3, 2),
    }


def test_a_broken_rule_that_must_hold_fails_the_query_with_its_name_and_the_row(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(1,), (7,)], "id long")
    assert accepted(frame, {"small": ("id < 10", "fail")}).count() == 2
    with pytest.raises(Exception, match=r"the expectation 'small' is not fulfilled by the row \{.*7"):
        accepted(frame, {"small": ("id < 5", "fail")}).collect()
