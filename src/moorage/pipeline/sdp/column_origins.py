"""Which columns of which tables the columns of a query are computed from, as far as its text or its plan tells. Pure.

Spark gives the resolved plan of a pipeline to no client, so names are resolved here, without the columns of the tables.
What could be meant in two ways is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from moorage.pipeline.sdp.sql_files import DIALECT, table_name

Place = tuple[str, str]
"""A table and one of its columns."""
Places = frozenset[Place] | None
"""None: not known."""

_SAME_COLUMNS: Final = frozenset(
    ("filter", "sort", "limit", "offset", "tail", "hint", "repartition", "repartition_by_expression", "collect_metrics")
)
"""Operators of a plan that leave the columns as they are."""
_PART: Final = re.compile(r"`((?:[^`]|``)+)`|([^.`]+)")


class Origins(msgspec.Struct, frozen=True):
    """The columns of a query."""

    columns: dict[str, Places] = {}
    every: frozenset[str] = frozenset()
    """The tables of which every other column is passed on under its name."""


Scope = list[tuple[str | None, Origins]]
"""What the names of a query refer to: alias → columns."""
UNKNOWN: Final = Origins()


def origins_of_query(query: exp.Expr, above: Mapping[str, Origins] | None = None) -> Origins:
    """The columns of a query in SQL. `above` are the common table expressions that it may name."""
    local = dict(above or {})
    for cte in query.ctes if isinstance(query, exp.Query) else ():
        local[cte.alias.lower()] = origins_of_query(cte.this, local)
    if isinstance(query, exp.Subquery):
        return origins_of_query(query.this, local)
    if isinstance(query, exp.Union):
        return _by_position(origins_of_query(query.left, local), origins_of_query(query.right, local))
    if not isinstance(query, exp.Select) or query.args.get("laterals"):
        return UNKNOWN
    start = query.args.get("from_")
    sources = [start.this] if start is not None else []
    sources += [join.this for join in query.args.get("joins") or ()]
    return _selected(query.expressions, [_source(each, local) for each in sources])


def _source(source: exp.Expr, local: Mapping[str, Origins]) -> tuple[str | None, Origins]:
    alias = source.alias.lower() or None
    if isinstance(source, exp.Stream):
        inner, found = _source(source.this, local)
        return alias or inner, found
    if isinstance(source, exp.Subquery):
        return alias, origins_of_query(source.this, local)
    if not isinstance(source, exp.Table) or not isinstance(source.this, exp.Identifier) or "/" in source.name:
        return alias, UNKNOWN
    known = local.get(source.name.lower()) if len(source.parts) == 1 else None
    return alias or source.name.lower(), known or Origins(every=frozenset((table_name(source),)))


def _selected(expressions: list[exp.Expr], scope: Scope) -> Origins:
    made, every = dict[str, Places](), set[str]()
    for each in expressions:
        starred = _starred(each, scope)
        if starred is not None:
            made |= starred.columns
            every |= starred.every
        elif each.alias_or_name:
            made[each.alias_or_name] = _places(each, scope)
    return Origins(made, frozenset(every))


def _starred(projection: exp.Expr, scope: Scope) -> Origins | None:
    """The columns of `*` and `t.*`; None for another expression."""
    if isinstance(projection, exp.Star):
        return UNKNOWN if projection.args.get("except_") or projection.args.get("replace") else _whole(scope)
    if isinstance(projection, exp.Column) and isinstance(projection.this, exp.Star):
        return _whole([(alias, found) for alias, found in scope if alias == projection.table.lower()])
    return None


def _places(projection: exp.Expr, scope: Scope) -> Places:
    if projection.find(exp.Query) is not None:
        return None
    return _union(_look_up([part.name for part in column.parts], scope) for column in projection.find_all(exp.Column))


def _look_up(parts: list[str], scope: Scope) -> Places:
    """The places of a name, which may have the alias of its table in front, or fields of a struct behind it."""
    named = [found for alias, found in scope if len(parts) > 1 and alias == parts[-2].lower()]
    name = parts[-1] if named else parts[0]
    candidates = named or [found for _, found in scope]
    hits = [places for found in candidates for key, places in found.columns.items() if key.lower() == name.lower()]
    if hits:
        return hits[0] if len(hits) == 1 else None
    tables = [table for found in candidates for table in found.every]
    return frozenset(((tables[0], name),)) if len(tables) == 1 else None


def _union(found: Iterator[Places]) -> Places:
    whole: set[Place] = set()
    for places in found:
        if places is None:
            return None
        whole |= places
    return frozenset(whole)


def _whole(scope: Scope) -> Origins:
    """All columns of a scope. Of a name that occurs twice, neither is known."""
    columns = dict[str, Places]()
    for _, found in scope:
        for name, places in found.columns.items():
            columns[name] = None if name in columns else places
    return Origins(columns, frozenset(table for _, found in scope for table in found.every))


def _by_position(left: Origins, right: Origins) -> Origins:
    if left.every or right.every or len(left.columns) != len(right.columns):
        return UNKNOWN
    pairs = zip(left.columns.items(), right.columns.values(), strict=True)
    return Origins({name: _union(iter((mine, other))) for (name, mine), other in pairs})


# --- plans of Spark Connect ------------------------------------------------------------------------------------------


def origins_of_plan(relation: Any) -> Origins:
    """The columns of the plan of a DataFrame."""
    return _whole(_scope(relation))


def _scope(relation: Any) -> Scope:
    kind = relation.WhichOneof("rel_type")
    if kind is None:
        return []
    node = getattr(relation, kind)
    if kind == "read":
        return [_read(node)]
    if kind == "sql":
        return [(None, _parsed(node.query, origins_of_query))]
    if kind == "subquery_alias":
        return [(node.alias.lower(), _whole(_scope(node.input)))]
    if kind in _SAME_COLUMNS:
        return _scope(node.input)
    if kind == "join":
        return [*_scope(node.left), *_scope(node.right)]
    if kind == "project":
        return [(None, _computed(node.expressions, _scope(node.input)))]
    if kind == "aggregate":
        return [(None, _computed([*node.grouping_expressions, *node.aggregate_expressions], _scope(node.input)))]
    return []


def _read(node: Any) -> tuple[str | None, Origins]:
    if node.WhichOneof("read_type") == "named_table":
        table = node.named_table.unparsed_identifier.replace("`", "")
        return table.rsplit(".", 1)[-1].lower(), Origins(every=frozenset((table,)))
    paths = {*node.data_source.paths, *(node.data_source.options.get(name) for name in ("path", "table"))} - {None}
    if node.data_source.format != "moorage" or len(paths) != 1:
        return None, UNKNOWN
    return None, Origins(every=frozenset(paths))


def _computed(expressions: Any, scope: Scope) -> Origins:
    made, every = dict[str, Places](), set[str]()
    for each in expressions:
        kind = each.WhichOneof("expr_type")
        if kind == "unresolved_star" and not each.unresolved_star.unparsed_target:
            found = _whole(scope)
        elif kind == "expression_string":
            found = _parsed(each.expression_string.expression, lambda parsed: _selected([parsed], scope))
        else:
            name = _name_of(each, kind)
            found = Origins({name: _union(_attributes(each, scope))}) if name else UNKNOWN
        made |= found.columns
        every |= found.every
    return Origins(made, frozenset(every))


def _name_of(expression: Any, kind: str | None) -> str | None:
    if kind == "alias" and len(expression.alias.name) == 1:
        return str(expression.alias.name[0])
    if kind == "unresolved_attribute":
        return _parts(expression.unresolved_attribute.unparsed_identifier)[-1]
    return None


def _attributes(message: Any, scope: Scope) -> Iterator[Places]:
    """The places of every column that an expression names."""
    if message.DESCRIPTOR.name == "Expression":
        kind = message.WhichOneof("expr_type")
        if kind == "unresolved_attribute":
            yield _look_up(_parts(message.unresolved_attribute.unparsed_identifier), scope)
            return
        if kind == "expression_string":
            text = message.expression_string.expression
            found = _parsed(text, lambda parsed: Origins({"": _places(parsed, scope)}))
            yield found.columns.get("")
            return
        if kind == "subquery_expression":
            yield None
            return
    for field, value in message.ListFields():
        if field.message_type is not None and not field.message_type.GetOptions().map_entry:
            for item in value if field.is_repeated else (value,):
                yield from _attributes(item, scope)


def _parsed(text: str, use: Any) -> Origins:
    try:
        found: Origins = use(sqlglot.parse_one(text, dialect=DIALECT))
    except SqlglotError:
        return UNKNOWN
    return found


def _parts(identifier: str) -> list[str]:
    return [quoted.replace("``", "`") or plain for quoted, plain in _PART.findall(identifier)] or [identifier]
