"""For any rows and any predicate, a file with a matching row is never pruned."""

from __future__ import annotations

import json
import operator
import os
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from moorage.formats.delta.actions import Metadata, Protocol
from moorage.formats.delta.file_actions import AddFile
from moorage.formats.delta.replay import LogState, part_of, to_table
from moorage.snapshots.predicates import And, Compare, In, IsNull, Not, Or, Predicate
from moorage.snapshots.snapshot import Snapshot

EPOCH = datetime(2024, 1, 1, tzinfo=UTC)
DAY = date(2024, 1, 1)
TYPES: dict[str, tuple[str, st.SearchStrategy[Any]]] = {
    "i": ("long", st.integers(-3, 3) | st.sampled_from([-(2**63), 2**63 - 1])),
    "f": ("double", st.sampled_from([-1e300, -0.5, -0.0, 0.0, 0.1, 2.5, 1e300])),
    "m": ("decimal(20,3)", st.decimals(-5, 5, places=3) | st.just(Decimal("12345678901234567.891"))),
    "s": ("string", st.text("ab\U0010ffff", max_size=40) | st.just("é")),
    "d": ("date", st.integers(-3, 3).map(lambda days: DAY + timedelta(days=days))),
    "t": ("timestamp", st.integers(-2_500, 2_500).map(lambda us: EPOCH + timedelta(microseconds=us))),
    "b": ("boolean", st.booleans()),
}
NAMES = sorted(TYPES)
Row = dict[str, Any]
OPS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def holds(predicate: Predicate, row: Row) -> bool | None:
    """SQL's three truth values: true, false, and None for unknown."""
    match predicate:
        case IsNull(column=(name,), negated=negated):
            return (row[name] is None) != negated
        case Compare(column=(name,), op=op, value=value):
            return None if row[name] is None else OPS[op](row[name], value)
        case In(column=(name,), values=values, negated=negated):
            return None if row[name] is None else (row[name] in values) != negated
        case Not(part=part):
            inner = holds(part, row)
            return None if inner is None else not inner
        case And(parts=parts):
            found = [holds(part, row) for part in parts]
            return False if False in found else None if None in found else True
        case Or(parts=parts):
            found = [holds(part, row) for part in parts]
            return True if True in found else None if None in found else False
    raise AssertionError(predicate)


def to_bound(value: Any, *, greatest: bool) -> Any:
    """A bound as writers store it in JSON: times truncated to milliseconds, long texts truncated or rounded up."""
    match value:
        case datetime():
            return value.strftime("%Y-%m-%dT%H:%M:%S.") + f"{value.microsecond // 1000:03}Z"
        case date():
            return value.isoformat()
        case Decimal():
            return str(value)
        case str() if len(value) > 8:
            return value[:8] + ("\U0010ffff" * len(value) if greatest else "")
    return value


def stats_of(rows: list[Row], *, kept: set[str]) -> str:
    columns = {name: [row[name] for row in rows if row[name] is not None] for name in kept}
    return json.dumps(
        {
            "numRecords": len(rows),
            "minValues": {name: to_bound(min(held), greatest=False) for name, held in columns.items() if held},
            "maxValues": {name: to_bound(max(held), greatest=True) for name, held in columns.items() if held},
            "nullCount": {name: len(rows) - len(held) for name, held in columns.items()},
        }
    )


ROWS = st.fixed_dictionaries({name: st.none() | values for name, (_, values) in TYPES.items()})
FILES = st.lists(
    st.tuples(st.lists(ROWS, min_size=1, max_size=3), st.none() | st.sets(st.sampled_from(NAMES))),
    min_size=1,
    max_size=4,
)


def leaf(name: str) -> st.SearchStrategy[Predicate]:
    values = TYPES[name][1]
    return (
        st.builds(Compare, st.just((name,)), st.sampled_from(sorted(OPS)), values)
        | st.builds(In, st.just((name,)), st.lists(values, max_size=3).map(tuple), st.booleans())
        | st.builds(IsNull, st.just((name,)), st.booleans())
    )


def joined(inner: st.SearchStrategy[Predicate]) -> st.SearchStrategy[Predicate]:
    parts = st.lists(inner, min_size=1, max_size=3).map(tuple)
    return st.builds(And, parts) | st.builds(Or, parts) | st.builds(Not, inner)


PREDICATES = st.recursive(st.sampled_from(NAMES).flatmap(leaf), joined, max_leaves=6)
EXAMPLES = 5_000 if os.environ.get("MOORAGE_SOAK") else 200


def table_of(files: pa.Table) -> Snapshot:
    fields = [{"name": name, "type": kind, "nullable": True} for name, (kind, _) in TYPES.items()]
    schema = json.dumps({"type": "struct", "fields": fields})
    protocol = Protocol(min_reader_version=1, min_writer_version=2)
    metadata = Metadata(id="m", schema_string=schema)
    state = LogState(version=0, protocol=protocol, metadata=metadata, parts=(part_of(files),))
    return Snapshot(table="t", location="file:///t/", timestamp_ms=0, protocol=protocol, metadata=metadata, state=state)


@settings(max_examples=EXAMPLES, deadline=None)
@given(FILES, PREDICATES)
def test_no_file_with_a_matching_row_is_pruned(
    files: list[tuple[list[Row], set[str] | None]], predicate: Predicate
) -> None:
    adds = [
        AddFile(
            path=str(at),
            partition_values={},
            size=1,
            modification_time=1,
            data_change=True,
            stats=None if kept is None else stats_of(rows, kept=kept),
        )
        for at, (rows, kept) in enumerate(files)
    ]
    wanted = {str(at) for at, (rows, _) in enumerate(files) if any(holds(predicate, row) for row in rows)}
    found = set(table_of(to_table(adds)).select(predicate)["path"].to_pylist())
    assert wanted <= found
