"""Whatever a hint says, no file with a matching row is left out."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from moorage.formats.delta.actions import Metadata, Protocol
from moorage.formats.delta.file_actions import AddFile
from moorage.formats.delta.replay import LogState, part_of, to_table
from moorage.snapshots.bounds import find_column
from moorage.snapshots.snapshot import Snapshot
from moorage.usecases.sharing.hints import read_hints

FIELDS = {"p": "integer", "n": "long", "s": "string"}
KINDS = {"p": "int", "n": "long", "s": "string"}
SCHEMA = {
    "type": "struct",
    "fields": [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in FIELDS.items()],
}
METADATA = Metadata(id="1", schema_string=json.dumps(SCHEMA), partition_columns=("p",))
PROTOCOL = Protocol(min_reader_version=1, min_writer_version=2)

Row = dict[str, Any]
NUMBERS = st.integers(-3, 3)
TEXTS = st.sampled_from(["", "a", "ab", "b'c", "ü"])
ROWS = st.fixed_dictionaries({"n": st.none() | NUMBERS, "s": st.none() | TEXTS})
FILES = st.lists(st.tuples(st.none() | NUMBERS, st.lists(ROWS, min_size=1, max_size=3), st.booleans()), max_size=4)


def snapshot_of(files: list[tuple[int | None, list[Row], bool]]) -> Snapshot:
    adds = [
        AddFile(
            path=str(number),
            partition_values={"p": None if partition is None else str(partition)},
            size=1,
            modification_time=1,
            data_change=True,
            stats=statistics(rows) if has_statistics else None,
        )
        for number, (partition, rows, has_statistics) in enumerate(files)
    ]
    state = LogState(version=0, protocol=PROTOCOL, metadata=METADATA, parts=(part_of(to_table(adds)),) if adds else ())
    return Snapshot(table="t", location="x", timestamp_ms=1, protocol=PROTOCOL, metadata=METADATA, state=state)


def statistics(rows: list[Row]) -> str:
    known = {name: [row[name] for row in rows if row[name] is not None] for name in ("n", "s")}
    return json.dumps(
        {
            "numRecords": len(rows),
            "minValues": {name: min(values) for name, values in known.items() if values},
            "maxValues": {name: max(values) for name, values in known.items() if values},
            "nullCount": {name: len(rows) - len(values) for name, values in known.items()},
        }
    )


COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "equal": lambda left, right: left == right,
    "lessThan": lambda left, right: left < right,
    "lessThanOrEqual": lambda left, right: left <= right,
    "greaterThan": lambda left, right: left > right,
    "greaterThanOrEqual": lambda left, right: left >= right,
}
SQL = {"equal": "=", "lessThan": "<", "lessThanOrEqual": "<=", "greaterThan": ">", "greaterThanOrEqual": ">="}


def column(name: str) -> Row:
    return {"op": "column", "name": name, "valueType": KINDS[name]}


@st.composite
def leaves(draw: st.DrawFn) -> Row:
    name = draw(st.sampled_from(sorted(FIELDS)))
    if draw(st.booleans()) and draw(st.booleans()):
        return {"op": "isNull", "children": [column(name)]}
    value = draw(TEXTS if name == "s" else NUMBERS)
    children = [column(name), {"op": "literal", "value": str(value), "valueType": KINDS[name]}]
    return {"op": draw(st.sampled_from(sorted(COMPARE))), "children": children[:: draw(st.sampled_from([1, -1]))]}


HINTS = st.recursive(
    leaves(),
    lambda inner: st.builds(
        lambda op, parts: {"op": op, "children": parts[:1] if op == "not" else parts},
        st.sampled_from(["and", "or", "not"]),
        st.lists(inner, min_size=2, max_size=3),
    ),
    max_leaves=6,
)


def truth(hint: Row, row: Row) -> bool | None:
    """The value of a predicate for a row, as in SQL: None is unknown."""
    children = hint["children"]
    match hint["op"]:
        case "and":
            found = [truth(child, row) for child in children]
            return False if False in found else None if None in found else True
        case "or":
            found = [truth(child, row) for child in children]
            return True if True in found else None if None in found else False
        case "not":
            inner = truth(children[0], row)
            return None if inner is None else not inner
        case "isNull":
            return row[children[0]["name"]] is None
    left, right = (operand(child, row) for child in children)
    return None if left is None or right is None else COMPARE[hint["op"]](left, right)


def operand(node: Row, row: Row) -> Any:
    if node["op"] == "column":
        return row[node["name"]]
    return node["value"] if node["valueType"] == "string" else int(node["value"])


def to_sql(hint: Row) -> str:
    children = hint["children"]
    match hint["op"]:
        case "and" | "or":
            return f" {hint['op'].upper()} ".join(f"({to_sql(child)})" for child in children)
        case "not":
            return f"NOT ({to_sql(children[0])})"
        case "isNull":
            return f"{children[0]['name']} IS NULL"
    left, right = (_sql_operand(child) for child in children)
    return f"{left} {SQL[hint['op']]} {right}"


def _sql_operand(node: Row) -> str:
    if node["op"] == "column":
        return f"`{node['name']}`"
    text = str(node["value"])
    return "'" + text.replace("'", "''") + "'" if node["valueType"] == "string" else text


@settings(deadline=None, max_examples=300)
@given(FILES, HINTS)
def test_no_file_with_a_matching_row_is_left_out(files: list[tuple[int | None, list[Row], bool]], hint: Row) -> None:
    snapshot = snapshot_of(files)

    def kind_of(path: tuple[str, ...]) -> str | None:
        found = find_column(path, snapshot.schema, snapshot.metadata)
        return None if found is None else found.type.name

    # Delta writes a null partition as an empty text, so a partition has no empty text.
    matching = {
        str(number)
        for number, (partition, rows, _) in enumerate(files)
        if any(truth(hint, {**row, "p": partition}) for row in rows)
    }
    for hints in (read_hints(json.dumps(hint), (), kind_of), read_hints(None, (to_sql(hint),), kind_of)):
        assert hints.is_complete, hint
        kept = set(snapshot.select(hints.predicate)["path"].to_pylist())
        assert matching <= kept
