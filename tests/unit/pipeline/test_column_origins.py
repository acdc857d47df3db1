"""Which columns a query in SQL is computed from, and what a run makes of it."""

from __future__ import annotations

from typing import Any

import pytest
import sqlglot

from moorage.pipeline.sdp.column_origins import Origins, origins_of_query
from moorage.pipeline.sdp.project import FlowColumns
from moorage.pipeline.sdp.results import ColumnOrigins, State
from moorage.pipeline.sdp.sql_files import DIALECT

BRONZE, PORTS, GOLD, VIEW = "lake.sea.bronze", "lake.sea.ports", "lake.sea.gold", "lake.sea.dear"


def columns_of(query: str) -> dict[str, Any]:
    """Column → its origins as texts; None if they are not known."""
    found = origins_of_query(sqlglot.parse_one(query, dialect=DIALECT)).columns
    return {
        name: None if places is None else sorted(".".join(place) for place in places) for name, places in found.items()
    }


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("SELECT id, amount * rate AS euros FROM t", {"id": ["t.id"], "euros": ["t.amount", "t.rate"]}),
        ("SELECT a.id, b.city FROM STREAM t a JOIN u b ON a.x = b.x", {"id": ["t.id"], "city": ["u.city"]}),
        ("SELECT x FROM t JOIN u USING (id)", {"x": None}),  # of one of them
        ("WITH c AS (SELECT id, a + b AS s FROM t) SELECT max(s) AS m FROM c", {"m": ["t.a", "t.b"]}),
        ("SELECT i FROM (SELECT id AS i FROM t) q", {"i": ["t.id"]}),
        ("SELECT id FROM t UNION ALL SELECT number FROM u", {"id": ["t.id", "u.number"]}),
        ("SELECT count(*) AS n, place.city AS city FROM t", {"n": [], "city": ["t.place"]}),
        ("SELECT (SELECT max(id) FROM u) AS m FROM t", {"m": None}),
        ("SELECT y FROM t LATERAL VIEW explode(x) e AS y", {}),
    ],
)
def test_columns_are_followed_to_the_tables_or_left_out(query: str, found: dict[str, Any]) -> None:
    assert columns_of(query) == found


def test_a_star_passes_on_every_column_of_its_table() -> None:
    query = sqlglot.parse_one("SELECT a.*, b.id AS other FROM t a JOIN u b ON a.id = b.id", dialect=DIALECT)
    assert origins_of_query(query) == Origins({"other": frozenset({("u", "id")})}, frozenset({"t"}))


def state(*names: str) -> State:
    schema = {"schema-id": 0, "fields": [{"name": name} for name in names]}
    return State(id="i", version="1", metadata={"current-schema-id": 0, "schemas": [schema]})


def test_a_run_resolves_stars_with_the_columns_of_the_tables_and_follows_temporary_views() -> None:
    columns = {
        VIEW: [FlowColumns(columns={"twice": ((BRONZE, "amount"),)}, every=(BRONZE,), hidden=("at",))],
        GOLD: [FlowColumns(columns={"most": ((VIEW, "twice"),), "when": ((VIEW, "at"),)}, every=(VIEW, PORTS))],
    }
    states = {BRONZE: state("id", "amount", "at"), PORTS: state("id", "city"), GOLD: state("most")}
    assert ColumnOrigins(columns, frozenset((BRONZE, GOLD)), states).of(GOLD) == {
        "amount": (f"{BRONZE}.amount",),
        "city": (f"{PORTS}.city",),
        "most": (f"{BRONZE}.amount",),
        "twice": (f"{BRONZE}.amount",),
    }
