"""PyIceberg with scans that the server plans reads the same rows, from no more files than its own plan has."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import date
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.expressions import (
    AlwaysTrue,
    And,
    BooleanExpression,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    NotEqualTo,
    NotIn,
    NotNull,
    NotStartsWith,
    Or,
    StartsWith,
)
from pyiceberg.table import Table
from pyiceberg.transforms import YearTransform

from moorage.testing.server import ServerProcess
from tests.conformance.iceberg_rows import SCHEMA, SPECS, append, rows
from tests.conformance.lakes import lake_server, pyiceberg_of

SERVER = {"scan-planning-mode": "server"}
TIMES = 25 if os.environ.get("MOORAGE_SOAK") else 1


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with lake_server(tmp_path_factory.mktemp("planning") / "data") as server:
        local = pyiceberg_of(server)
        local.create_namespace("sales")
        for name, spec in SPECS.items():
            table = local.create_table(("sales", name), schema=SCHEMA, partition_spec=spec)
            for first in (0, 6, 20):
                append(table, rows(first))
        yield server


@pytest.fixture(scope="module")
def local(server: ServerProcess) -> dict[str, Table]:
    catalog = pyiceberg_of(server)
    return {name: catalog.load_table(("sales", name)) for name in SPECS}


@pytest.fixture(scope="module")
def remote(server: ServerProcess) -> dict[str, Table]:
    catalog = pyiceberg_of(server, **SERVER)
    assert catalog.supports_server_side_planning()
    return {name: catalog.load_table(("sales", name)) for name in SPECS}


def planned(table: Table, **how: Any) -> set[str]:
    return {task.file.file_path for task in table.scan(**how).plan_files()}


def values_of(name: str) -> st.SearchStrategy[Any]:
    return st.sampled_from([row[name] for row in rows(-3, 40) if row[name] is not None])


def comparisons(name: str) -> st.SearchStrategy[BooleanExpression]:
    """Every predicate on a column. Built with `map`: Hypothesis would inspect PyIceberg's models otherwise."""
    values = values_of(name).map(_literal)
    sets = st.lists(values, min_size=1, max_size=4)
    tests: list[tuple[Any, st.SearchStrategy[Any]]] = [
        (kind, values) for kind in (EqualTo, NotEqualTo, LessThan, LessThanOrEqual, GreaterThan, GreaterThanOrEqual)
    ]
    tests += [(In, sets), (NotIn, sets)]
    if name == "city":
        tests += [(kind, st.sampled_from(["O", "Os", "Osl", "R", "Łó"])) for kind in (StartsWith, NotStartsWith)]
    nulls: tuple[Any, ...] = (IsNull, NotNull)
    return st.one_of(
        *(chosen.map(partial(kind, name)) for kind, chosen in tests),
        *(st.just(kind(name)) for kind in nulls),
    )


def _literal(value: Any) -> Any:
    """The value as users write it in a filter."""
    return value.isoformat() if isinstance(value, date) else value


FILTERS = st.recursive(
    st.one_of([comparisons(field.name) for field in SCHEMA.fields]),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda two: And(*two)),
        st.tuples(inner, inner).map(lambda two: Or(*two)),
        inner.map(Not),
    ),
    max_leaves=4,
)


@settings(max_examples=60 * TIMES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(name=st.sampled_from(sorted(SPECS)), wanted=FILTERS)
def test_the_server_plans_no_file_that_the_client_would_not(
    local: dict[str, Table], remote: dict[str, Table], name: str, wanted: BooleanExpression
) -> None:
    assert planned(remote[name], row_filter=wanted) <= planned(local[name], row_filter=wanted)


@settings(max_examples=40 * TIMES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(name=st.sampled_from(sorted(SPECS)), wanted=FILTERS)
def test_rows_are_the_same_whether_client_or_server_plans(
    local: dict[str, Table], remote: dict[str, Table], name: str, wanted: BooleanExpression
) -> None:
    found, expected = (sorted(_ids(tables[name], wanted)) for tables in (remote, local))
    assert found == expected


def _ids(table: Table, wanted: BooleanExpression | str) -> list[int]:
    found: list[int] = table.scan(row_filter=wanted, selected_fields=("id",)).to_arrow()["id"].to_pylist()
    return found


def test_older_snapshots_are_planned(local: dict[str, Table], remote: dict[str, Table]) -> None:
    for entry in local["city"].history():
        at = {"snapshot_id": entry.snapshot_id}
        assert planned(remote["city"], **at) == planned(local["city"], **at) != set()


def test_deleted_rows_and_evolved_specs_are_planned(server: ServerProcess) -> None:
    catalogs = pyiceberg_of(server), pyiceberg_of(server, **SERVER)
    table = catalogs[0].create_table(("sales", "evolved"), schema=SCHEMA, partition_spec=SPECS["city"])
    append(table, rows(0))
    with table.update_spec() as update:
        update.remove_field("city")
        update.add_field("day", YearTransform(), "day_year")
    append(table, rows(10))
    with table.update_schema() as schema:
        schema.rename_column("weight", "mass")
    table.delete("id = 3")
    by_client, by_server = (catalog.load_table(("sales", "evolved")) for catalog in catalogs)
    for wanted in (AlwaysTrue(), "city = 'Rome'", "day < '1971-06-01'", "mass > 2.0"):
        assert planned(by_server, row_filter=wanted) == planned(by_client, row_filter=wanted) != set()
        assert sorted(_ids(by_server, wanted)) == sorted(_ids(by_client, wanted))


def test_a_column_that_does_not_exist_is_refused(remote: dict[str, Table]) -> None:
    with pytest.raises(Exception, match="there is no column 'nothing'"):
        planned(remote["plain"], row_filter="nothing = 1")


def test_a_dropped_table_cannot_be_planned(server: ServerProcess) -> None:
    catalog = pyiceberg_of(server, **SERVER)
    table = catalog.create_table(("sales", "brief"), schema=SCHEMA)
    catalog.drop_table(("sales", "brief"))
    with pytest.raises(NoSuchTableError):
        planned(table)
