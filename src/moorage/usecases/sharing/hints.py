"""Hints: predicates of a client, in JSON or SQL, that let the server leave out files without matching rows.

A hint never makes a request fail. What is not understood is ignored, and the client filters the rows itself. A value
is compared only if the result is certain to be the client's own: a column that the client casts to another type keeps
all its files.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from functools import partial
from math import isfinite
from typing import Any, Final, TypeAlias

import msgspec

from moorage.snapshots.predicates import And, Column, Compare, IsNull, Not, Op, Or, Predicate, Value

ColumnKind: TypeAlias = str
"""The name of a column's type, as `snapshots.column_values` has it."""
FindKind: TypeAlias = Callable[[Column], ColumnKind | None]
"""The type of a column; None if the table has no such column, or no bounds for it."""

_MAX_BYTES: Final = 1024 * 1024
_MAX_SQL_BYTES: Final = 64 * 1024
"""Of all SQL hints of a request together. To parse more would delay other requests."""
_MAX_DEPTH: Final = 100
_MAX_INTEGER: Final = 2**63
_MAX_EXPONENT: Final = 400
"""Beyond the range of doubles. Arrow needs seconds to compare a decimal with an exponent of a thousand million."""


class NotUnderstood(Exception):
    """The hint cannot be used."""


# --- JSON ------------------------------------------------------------------------------------------


class _Node(msgspec.Struct, frozen=True, rename="camel"):
    op: str
    children: tuple[Any, ...] = ()
    name: str | None = None
    value: str | bool | int | float | None = None
    value_type: str | None = None
    expr_ctx: Any = None
    """The collation of a comparison. Without one, texts are compared by their bytes, as bounds are."""


_COMPARISONS: Final[dict[str, Op]] = {
    "equal": "=",
    "lessThan": "<",
    "lessThanOrEqual": "<=",
    "greaterThan": ">",
    "greaterThanOrEqual": ">=",
}
_MIRRORED: Final[dict[Op, Op]] = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}

_KINDS: Final[dict[str, frozenset[ColumnKind]]] = {
    "bool": frozenset({"boolean"}),
    "int": frozenset({"integer"}),
    "long": frozenset({"integer"}),
    "string": frozenset({"string"}),
    "date": frozenset({"date"}),
    "float": frozenset({"float"}),
    "double": frozenset({"float", "double"}),
    "timestamp": frozenset({"timestamp"}),
}
"""By value type, the columns whose values are the same after the client's cast."""


def parse_json_hint(text: str, kind_of: FindKind) -> Predicate:
    """Parse `jsonPredicateHints`. Raises NotUnderstood for anything that the protocol does not define."""
    if len(text) > _MAX_BYTES:
        raise NotUnderstood
    try:
        return _predicate(msgspec.json.decode(text), kind_of, 1)
    except (msgspec.MsgspecError, ValueError, RecursionError, OverflowError, InvalidOperation):
        raise NotUnderstood from None


def _predicate(document: Any, kind_of: FindKind, depth: int) -> Predicate:
    node = msgspec.convert(document, _Node)
    if depth > _MAX_DEPTH or node.expr_ctx:
        raise NotUnderstood
    match node.op:
        case "and" | "or" if len(node.children) >= 2:
            parts = tuple(_predicate(child, kind_of, depth + 1) for child in node.children)
            return And(parts) if node.op == "and" else Or(parts)
        case "not" if len(node.children) == 1:
            return Not(_predicate(node.children[0], kind_of, depth + 1))
        case "isNull" if len(node.children) == 1:
            return IsNull(_column(msgspec.convert(node.children[0], _Node), kind_of)[0])
        case op if op in _COMPARISONS and len(node.children) == 2:
            left, right = (msgspec.convert(child, _Node) for child in node.children)
            if left.op == "literal":
                return _comparison(right, _MIRRORED[_COMPARISONS[op]], left, kind_of)
            return _comparison(left, _COMPARISONS[op], right, kind_of)
    raise NotUnderstood


def _comparison(column: _Node, op: Op, literal: _Node, kind_of: FindKind) -> Predicate:
    path, kind = _column(column, kind_of)
    if literal.op != "literal" or literal.value is None:
        raise NotUnderstood
    for value_type in (column.value_type, literal.value_type):
        if kind not in _KINDS.get((value_type or "").lower(), ()):
            raise NotUnderstood
    text = str(literal.value).lower() if isinstance(literal.value, bool) else str(literal.value)
    value_type = (literal.value_type or "").lower()
    return _compare(path, op, kind, _json_value(text, value_type))


def _column(node: _Node, kind_of: FindKind) -> tuple[Column, ColumnKind]:
    if node.op != "column" or not node.name:
        raise NotUnderstood
    return _find(node.name, kind_of)


def _find(name: str, kind_of: FindKind) -> tuple[Column, ColumnKind]:
    """The column of a name. A dot may be part of the name, or lead to a field of a struct."""
    for path in ((name,), tuple(name.split("."))):
        if (kind := kind_of(path)) is not None:
            return path, kind
    raise NotUnderstood


def _json_value(text: str, value_type: str) -> Value:
    match value_type:
        case "bool":
            return {"true": True, "false": False}.get(text.lower()) or _false(text)
        case "int" | "long":
            return int(text)
        case "float":
            return _as_float32(text)
        case "double":
            return float(text)
        case "date":
            return date.fromisoformat(text)
        case "timestamp":
            return _instant(text)
    return text


def _false(text: str) -> bool:
    if text.lower() != "false":
        raise NotUnderstood
    return False


def _as_float32(text: str) -> float:
    (number,) = struct.unpack("f", struct.pack("f", float(text)))
    return float(number)


def _instant(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise NotUnderstood  # it depends on the client's time zone
    return moment


def _compare(path: Column, op: Op, kind: ColumnKind, value: Value) -> Predicate:
    if not _is_comparable(value, kind):
        raise NotUnderstood
    return Compare(path, op, value)


def _is_comparable(value: Value, kind: ColumnKind) -> bool:
    """Whether pruning compares this value with a column of this type exactly."""
    match value:
        case bool():
            return kind == "boolean"
        case int():
            return kind in ("integer", "decimal", "float", "double") and abs(value) < _MAX_INTEGER
        case float():
            return kind in ("float", "double") and isfinite(value)
        case Decimal():
            return kind in ("decimal", "float", "double") and abs(value.adjusted()) <= _MAX_EXPONENT
        case str():
            return kind == "string"
        case datetime():
            return kind == "timestamp"
        case date():
            return kind == "date"


# --- SQL -------------------------------------------------------------------------------------------

_TOKEN: Final = re.compile(
    r"""\s*(?:
        (?P<word>[A-Za-z_][\w$]*(?:\s*\.\s*(?:[A-Za-z_][\w$]*|`(?:[^`]|``)+`))*)
      | (?P<quoted>`(?:[^`]|``)+`(?:\s*\.\s*(?:[A-Za-z_][\w$]*|`(?:[^`]|``)+`))*)
      | (?P<number>[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)(?![\w.])
      | (?P<text>'(?:[^'\\]|'')*'|"(?:[^"\\]|"")*")
      | (?P<op><=>|<>|!=|<=|>=|==|=|<|>|\(|\)|,)
    )""",
    re.VERBOSE,
)
_PART: Final = re.compile(r"`((?:[^`]|``)+)`|([A-Za-z_][\w$]*)")
_SQL_OPS: Final[dict[str, Op]] = {
    "=": "=",
    "==": "=",
    "<>": "!=",
    "!=": "!=",
    "<": "<",
    "<=": "<=",
    ">": ">",
    ">=": ">=",
}


class _SqlHint:
    """A parser of boolean expressions: comparisons, IS NULL, IN, AND, OR, NOT and parentheses."""

    def __init__(self, text: str, kind_of: FindKind) -> None:
        self._tokens = _tokens(text)
        self._at = 0
        self._kind_of = kind_of

    def parse(self) -> Predicate:
        predicate = self._any(1)
        if self._at != len(self._tokens):
            raise NotUnderstood
        return predicate

    def _any(self, depth: int) -> Predicate:
        parts = [self._all(depth)]
        while self._take_word("or"):
            parts.append(self._all(depth))
        return parts[0] if len(parts) == 1 else Or(tuple(parts))

    def _all(self, depth: int) -> Predicate:
        parts = [self._one(depth)]
        while self._take_word("and"):
            parts.append(self._one(depth))
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def _one(self, depth: int) -> Predicate:
        if depth > _MAX_DEPTH:
            raise NotUnderstood
        if self._take_word("not"):
            return Not(self._one(depth + 1))
        if self._take_op("("):
            inner = self._any(depth + 1)
            self._require_op(")")
            return inner
        return self._comparison()

    def _comparison(self) -> Predicate:
        literal = self._literal()
        if literal is not None:
            op = self._operator()
            path, kind = self._column()
            return _sql_compare(path, _MIRRORED[op], kind, literal)
        path, kind = self._column()
        if self._take_word("is"):
            is_negated = self._take_word("not")
            if not self._take_word("null"):
                raise NotUnderstood
            return IsNull(path, is_negated)
        is_negated = self._take_word("not")
        if self._take_word("in"):
            return self._in(path, kind, is_negated=is_negated)
        if is_negated:
            raise NotUnderstood
        op = self._operator()
        return _sql_compare(path, op, kind, self._required_literal())

    def _in(self, path: Column, kind: ColumnKind, *, is_negated: bool) -> Predicate:
        self._require_op("(")
        found = [_sql_compare(path, "=", kind, self._required_literal())]
        while self._take_op(","):
            found.append(_sql_compare(path, "=", kind, self._required_literal()))
        self._require_op(")")
        return Not(Or(tuple(found))) if is_negated else Or(tuple(found))

    def _column(self) -> tuple[Column, ColumnKind]:
        kind, text = self._next()
        if kind not in ("word", "quoted") or text.lower() in _RESERVED:
            raise NotUnderstood
        path = tuple(quoted.replace("``", "`") or plain for quoted, plain in _PART.findall(text))
        if (found := self._kind_of(path)) is None:
            raise NotUnderstood
        return path, found

    def _operator(self) -> Op:
        kind, text = self._next()
        if kind != "op" or text not in _SQL_OPS:
            raise NotUnderstood
        return _SQL_OPS[text]

    def _literal(self) -> Value | None:
        kind, text = self._peek()
        if kind == "number":
            self._at += 1
            return Decimal(text) if not text.lstrip("+-").isdigit() else int(text)
        if kind == "text":
            self._at += 1
            return text[1:-1].replace(text[0] * 2, text[0])
        if kind == "word" and text.lower() in ("true", "false"):
            self._at += 1
            return text.lower() == "true"
        if kind == "word" and text.lower() in ("date", "timestamp") and self._peek(1)[0] == "text":
            self._at += 2
            inner = self._tokens[self._at - 1][1][1:-1]
            return date.fromisoformat(inner) if text.lower() == "date" else _instant(inner)
        return None

    def _required_literal(self) -> Value:
        literal = self._literal()
        if literal is None:
            raise NotUnderstood
        return literal

    def _peek(self, ahead: int = 0) -> tuple[str, str]:
        at = self._at + ahead
        return self._tokens[at] if at < len(self._tokens) else ("", "")

    def _next(self) -> tuple[str, str]:
        found = self._peek()
        self._at += 1
        return found

    def _take_word(self, word: str) -> bool:
        kind, text = self._peek()
        is_next = kind == "word" and text.lower() == word
        self._at += is_next
        return is_next

    def _take_op(self, op: str) -> bool:
        is_next = self._peek() == ("op", op)
        self._at += is_next
        return is_next

    def _require_op(self, op: str) -> None:
        if not self._take_op(op):
            raise NotUnderstood


_RESERVED: Final = frozenset({"and", "or", "not", "is", "in", "null", "true", "false", "between", "like", "case"})


def parse_sql_hint(text: str, kind_of: FindKind) -> Predicate:
    """Parse one of `predicateHints`. Raises NotUnderstood for anything beyond a small subset of SQL."""
    try:
        return _SqlHint(text, kind_of).parse()
    except (ValueError, InvalidOperation, RecursionError, OverflowError):
        raise NotUnderstood from None


def _tokens(text: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    text, at = text.strip(), 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None or token.lastgroup is None:
            raise NotUnderstood
        found.append((token.lastgroup, token[token.lastgroup]))
        at = token.end()
    return found


def _sql_compare(path: Column, op: Op, kind: ColumnKind, value: Value) -> Predicate:
    if isinstance(value, str) and kind != "string":
        value = _from_sql_text(value, kind)
    return _compare(path, op, kind, value)


def _from_sql_text(text: str, kind: ColumnKind) -> Value:
    """A text that is compared with a column of another type, as Spark casts it."""
    match kind:
        case "date":
            return date.fromisoformat(text)
        case "timestamp":
            return _instant(text)
        case "integer":
            return int(text)
        case "boolean":
            return text.lower() == "true" or _false(text)
    raise NotUnderstood


# --- both ------------------------------------------------------------------------------------------


class Hints(msgspec.Struct, frozen=True, kw_only=True):
    """The hints of a request that were understood."""

    predicate: Predicate | None = None
    is_complete: bool = True
    """Whether all hints were understood. If not, a limit on rows must be ignored."""


def read_hints(json_hint: str | None, sql_hints: Sequence[str], kind_of: FindKind) -> Hints:
    """Combine the hints of a request. All of them must hold for a row that the client wants."""
    is_short = sum(len(text) + 1 for text in sql_hints) <= _MAX_SQL_BYTES
    stated = [partial(parse_sql_hint, text, kind_of) for text in sql_hints if is_short]
    if json_hint is not None:
        stated.append(partial(parse_json_hint, json_hint, kind_of))
    understood: list[Predicate] = []
    for parse in stated:
        with suppress(NotUnderstood):
            understood.append(parse())
    predicate = None if not understood else understood[0] if len(understood) == 1 else And(tuple(understood))
    return Hints(predicate=predicate, is_complete=is_short and len(understood) == len(stated))
