"""Expectations: what the rows of a table must fulfil, as SQL predicates, for flows of pipelines and any DataFrame.

Only `select` and `filter` are used, which keep the dependencies of a declarative pipeline.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

Action = Literal["warn", "drop", "fail"]
BROKEN: Final = "broken"
"""The column with the names of the expectations that a rejected row does not fulfil."""

PROPERTY: Final = "moorage.expectations"
"""The property of a table with counts: the table whose rows were counted."""


class Expect(NamedTuple):
    """A predicate, and what happens to a row for which it is not true: null counts as not true."""

    predicate: str
    action: Action = "drop"


Rules = Mapping[str, Expect | tuple[str, Action] | str]
"""Name → expectation. A predicate alone drops the rows that do not fulfil it."""


def accepted(frame: DataFrame, rules: Rules) -> DataFrame:
    """The rows that may be stored. A row that breaks a rule with the action `fail` fails the query, with its name."""
    from pyspark.sql import functions as f

    parsed = parse_rules(rules)
    for name, rule in parsed.items():
        if rule.action == "fail":
            reason = f.lit(f"the expectation '{name}' is not fulfilled by the row ")
            failure = f.raise_error(f.concat(reason, f.to_json(f.struct("*"))))
            frame = frame.filter(f.when(_holds(rule), f.expr("true")).otherwise(failure.cast("boolean")))
    for rule in parsed.values():
        if rule.action == "drop":
            frame = frame.filter(_holds(rule))
    return frame


def rejected(frame: DataFrame, rules: Rules) -> DataFrame:
    """The rows that `accepted` drops, with the names of the expectations that they break in the column `broken`."""
    from pyspark.sql import functions as f

    dropping = {name: rule for name, rule in parse_rules(rules).items() if rule.action == "drop"}
    return frame.select("*", _broken(dropping).alias(BROKEN)).filter(f.size(BROKEN) > 0)


def counts(frame: DataFrame, rules: Rules) -> DataFrame:
    """One row per expectation: its action, and how many rows fulfil and break it. A view of it keeps every run's."""
    from pyspark.sql import functions as f

    parsed = parse_rules(rules)
    broken = [f.count_if(~_holds(rule)).alias(f"rule{at}") for at, rule in enumerate(parsed.values())]
    whole = frame.agg(*broken, f.count("*").alias("total"))
    rows = [
        f.struct(
            f.lit(name).alias("expectation"),
            f.lit(rule.action).alias("action"),
            (f.col("total") - f.col(f"rule{at}")).alias("fulfilled"),
            f.col(f"rule{at}").alias("broken"),
        )
        for at, (name, rule) in enumerate(parsed.items())
    ]
    return whole.select(f.inline(f.array(*rows)))


def define_checked(name: str, source: str, rules: Rules, *, stream: bool = False, keep_rejected: bool = False) -> None:
    """Define tables of a declarative pipeline: `name` with the rows of `source` that `accepted` keeps, and the counts.

    With `stream`, `name` is a streaming table, else a materialized view. `keep_rejected` also defines `name_rejected`.
    The view `name_quality` has the counts over all rows of the source; they are also in the result of each run.
    """
    from pyspark import pipelines as dp
    from pyspark.sql import SparkSession

    parse_rules(rules)
    define = dp.table if stream else dp.materialized_view

    def read(*, as_stream: bool) -> DataFrame:
        spark = SparkSession.active()
        return (spark.readStream if as_stream else spark.read).table(source)

    define(name=name)(lambda: accepted(read(as_stream=stream), rules))
    if keep_rejected:
        define(name=f"{name}_rejected")(lambda: rejected(read(as_stream=stream), rules))
    marked = dp.materialized_view(name=f"{name}_quality", table_properties={PROPERTY: name})
    marked(lambda: counts(read(as_stream=False), rules))


def parse_rules(rules: Rules) -> dict[str, Expect]:
    """The rules with their actions. ValueError for one without a predicate or with an unknown action."""
    if not rules:
        raise ValueError("there is no expectation; pass at least one, such as {'id is known': 'id IS NOT NULL'}")
    parsed = {name: Expect(rule) if isinstance(rule, str) else Expect(*rule) for name, rule in rules.items()}
    for name, rule in parsed.items():
        if not rule.predicate.strip():
            raise ValueError(f"the expectation {name!r} has no predicate")
        if rule.action not in ("warn", "drop", "fail"):
            raise ValueError(f"the expectation {name!r} has the action {rule.action!r}; use warn, drop or fail")
    return parsed


def _holds(rule: Expect) -> Column:
    from pyspark.sql import functions as f

    return f.coalesce(f.expr(rule.predicate).cast("boolean"), f.expr("false"))


def _broken(rules: Mapping[str, Expect]) -> Column:
    from pyspark.sql import functions as f

    names: list[Any] = [f.when(~_holds(rule), f.lit(name)) for name, rule in rules.items()]
    return f.array_compact(f.array(*names)) if names else f.array().cast("array<string>")
