"""Which columns the plan of a DataFrame is computed from. Plans are made without a Spark server."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from moorage.pipeline.sdp.column_origins import Origins, origins_of_plan


def frame(table: str) -> Any:
    from pyspark.sql.connect.dataframe import DataFrame
    from pyspark.sql.connect.plan import Read

    return DataFrame(Read(table), SimpleNamespace(session_id="one"))


def columns_of(rows: Any) -> dict[str, Any]:
    found = origins_of_plan(rows._plan.plan(None)).columns
    return {
        name: None if places is None else sorted(".".join(place) for place in places) for name, places in found.items()
    }


def test_expressions_and_aggregates_are_followed_to_the_columns_of_their_table() -> None:
    from pyspark.sql.connect import functions as f

    rows = frame("bronze").selectExpr("*", "amount * rate AS euros").filter("euros > 1").groupBy("id")
    found = rows.agg(f.max("euros").alias("most"), f.expr("sum(amount) AS total"), f.count("*").alias("n"))
    assert columns_of(found) == {
        "id": ["bronze.id"],
        "most": ["bronze.amount", "bronze.rate"],
        "total": ["bronze.amount"],
        "n": [],
    }


def test_a_join_tells_the_columns_that_have_an_alias() -> None:
    from pyspark.sql.connect import functions as f

    joined = frame("bronze").alias("a").join(frame("lake.sea.ports").alias("b"), f.expr("a.port = b.id"))
    found = joined.select("a.id", f.upper("b.city").alias("city"), "note")
    assert columns_of(found) == {"id": ["bronze.id"], "city": ["lake.sea.ports.city"], "note": None}


def test_a_table_as_it_is_passes_on_every_column() -> None:
    assert origins_of_plan(frame("bronze").limit(3)._plan.plan(None)) == Origins(every=frozenset({"bronze"}))
