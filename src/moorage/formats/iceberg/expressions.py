"""Filters of scans: parsed, bound to the columns of a schema, free of `not`, and written again.

An expression is True, False, a predicate on one column, something that only the client can decide, or
several of them joined by `and` or `or`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from moorage.core.errors import InvalidInput
from moorage.formats.iceberg.documents import Document
from moorage.formats.iceberg.fields import Field, Fields
from moorage.formats.iceberg.transforms import Transform, parse_transform, result_type
from moorage.formats.iceberg.values import Primitive, Value, from_wire, to_wire

_DEEPEST = 100
"""Levels of `and` in `or` in `and`: long lists of conditions are one level."""


class Term(msgspec.Struct, frozen=True):
    """What a predicate looks at: a column, or a transform of it."""

    field: Field
    transform: Transform | None = None

    @property
    def kind(self) -> Primitive:
        """The type of the values that it compares."""
        return self.field.kind if self.transform is None else result_type(self.transform, self.field.kind)

    def to_wire(self) -> Any:
        if self.transform is None:
            return self.field.name
        return {"type": "transform", "transform": str(self.transform), "term": self.field.name}


class Predicate(msgspec.Struct, frozen=True):
    """A test of one term, by the name that it has on the wire."""

    op: str
    term: Term
    values: tuple[Value, ...] = ()


class Opaque(msgspec.Struct, frozen=True):
    """What is valid and cannot be decided here, such as a function or two columns compared."""

    said: Any


class Joined(msgspec.Struct, frozen=True):
    """Several expressions that must all hold (`and`), or of which one must (`or`)."""

    op: str
    parts: tuple[Expression, ...]


Expression = bool | Predicate | Opaque | Joined

_NEGATED = {
    "is-null": "not-null",
    "is-nan": "not-nan",
    "lt": "gt-eq",
    "gt": "lt-eq",
    "eq": "not-eq",
    "in": "not-in",
    "starts-with": "not-starts-with",
}
_NEGATED |= {other: one for one, other in _NEGATED.items()}
_FLIPPED = {"lt": "gt", "gt": "lt", "lt-eq": "gt-eq", "gt-eq": "lt-eq", "eq": "eq", "not-eq": "not-eq"}
_UNARY = ("is-null", "not-null", "is-nan", "not-nan")
_SETS = ("in", "not-in")
_PREFIXES = ("starts-with", "not-starts-with")


def join(op: str, parts: Iterable[Expression]) -> Expression:
    """The parts joined, as short as it can be said."""
    decisive = op == "or"
    kept: list[Expression] = []
    for part in parts:
        if part is decisive:
            return decisive
        if isinstance(part, Joined) and part.op == op:
            kept.extend(part.parts)
        elif not isinstance(part, bool):
            kept.append(part)
    if not kept:
        return not decisive
    return kept[0] if len(kept) == 1 else Joined(op, tuple(kept))


def rewritten(expression: Expression, change: Callable[[Predicate], Expression]) -> Expression:
    """The expression with something else in the place of each predicate."""
    match expression:
        case Predicate():
            return change(expression)
        case Joined(op=op, parts=parts):
            return join(op, (rewritten(part, change) for part in parts))
    return expression


# --- from the wire --------------------------------------------------------------------------------------


def parse_filter(said: Any, fields: Fields) -> Expression:
    """A filter of a request, bound to the columns of a schema."""
    try:
        return _parse(said, fields, negated=False, depth=0)
    except RecursionError:
        raise _wrong("a term is nested too deeply") from None


def _parse(said: Any, fields: Fields, *, negated: bool, depth: int) -> Expression:
    if isinstance(said, bool):
        return said is not negated
    if not isinstance(said, dict):
        raise _wrong(f"an expression is an object or a boolean, not {said!r}")
    if depth > _DEEPEST:
        raise _wrong(f"it is nested more than {_DEEPEST} levels deep")
    op = said.get("type")
    if op in ("true", "false"):
        return (op == "true") is not negated
    if op == "literal" and isinstance(said.get("value"), bool):
        return said["value"] is not negated
    if op == "not":
        return _parse(said.get("child"), fields, negated=not negated, depth=depth + 1)
    if op in ("and", "or"):
        chain = [_parse(part, fields, negated=negated, depth=depth + 1) for part in _chain(said, op)]
        return join(op if not negated else _other(op), chain)
    if not isinstance(op, str) or op not in _NEGATED:
        raise _wrong(f"{op!r} is not a predicate")
    return _parse_predicate(op, said, fields, negated=negated)


def _other(op: str) -> str:
    return "or" if op == "and" else "and"


def _chain(said: Document, op: str) -> list[Any]:
    """The parts of `a and (b and (c …))`. Clients write long lists of conditions this way, very deep."""
    waiting, parts = list[Any]([said]), list[Any]()
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict) and part.get("type") == op:
            waiting += [part.get("right"), part.get("left")]
        else:
            parts.append(part)
    return parts


def _parse_predicate(op: str, said: Document, fields: Fields, *, negated: bool) -> Expression:
    operands = _operands(op, said)
    if operands is None:
        _require_known_columns(said, fields)
    else:
        term = _parse_term(operands[0], fields)
        if not term.field.is_repeated and (term.transform is None or term.transform.is_known):
            name = _NEGATED[op] if negated else op
            return _bound(_FLIPPED[name] if operands[2] else name, term, operands[1])
    return Opaque({"type": "not", "child": said} if negated else said)


def _operands(op: str, said: Document) -> tuple[Any, list[Any], bool] | None:
    """The term, its literals, and whether they stood the other way round; None if this is another kind of test.

    The older form has `term` and `value`, the newer one `child`, or `left` and `right`.
    """
    if op in _UNARY or op in _SETS:
        term = _as_transform(said.get("term", said.get("child")))
        return (term, _literals(op, said), False) if _is_term(term) else _require_operands(term)
    if "term" in said:
        return said["term"], [_literal(said.get("value"))], False
    left, right = _as_transform(said.get("left")), _as_transform(said.get("right"))
    if _is_term(left, bare=False) and not _is_expression(right):
        return left, [_literal(right)], False
    if op in _FLIPPED and _is_term(right, bare=False) and not _is_expression(left):
        return right, [_literal(left)], True
    return _require_operands(left, right)


def _require_operands(*operands: Any) -> tuple[Any, list[Any], bool] | None:
    if None in operands:
        raise _wrong("a predicate has no term")
    return None


_TRANSFORMS = ("identity", "year", "month", "day", "hour", "bucket", "truncate")
_OURS = "iceberg_functions"
"""The catalog under whose name the partition transforms are functions."""


def _as_transform(said: Any) -> Any:
    """`bucket(16, id)` as an older client would say it; everything else as it is."""
    if not isinstance(said, dict) or said.get("type") != "apply":
        return said
    function, arguments = said.get("function"), said.get("arguments")
    if isinstance(function, dict):
        function = function.get("identifier") if function.get("catalog", _OURS) == _OURS else None
    if isinstance(function, list) and len(function) == 1:
        function = function[0]
    if function not in _TRANSFORMS or not isinstance(arguments, list):
        return said
    *widths, term = [_literal(argument) for argument in arguments] or [None]
    if len(widths) != (function in ("bucket", "truncate")) or not _is_term(term):
        return said
    return {"type": "transform", "transform": f"{function}[{widths[0]}]" if widths else function, "term": term}


def _is_term(said: Any, *, bare: bool = True) -> bool:
    return (bare and isinstance(said, str)) or (
        isinstance(said, dict) and said.get("type") in ("reference", "transform")
    )


def _is_expression(said: Any) -> bool:
    return isinstance(said, dict) and said.get("type") != "literal"


def _literals(op: str, said: Document) -> list[Any]:
    if op in _UNARY:
        return []
    values = said.get("values")
    if isinstance(values, dict):
        values = values.get("values")
    if not isinstance(values, list):
        raise _wrong(f"{op} has no values")
    return [_literal(value) for value in values]


def _literal(said: Any) -> Any:
    return said.get("value") if isinstance(said, dict) and said.get("type") == "literal" else said


def _parse_term(said: Any, fields: Fields) -> Term:
    if isinstance(said, dict) and said.get("type") == "transform":
        inner, transform = _parse_term(said.get("term"), fields), said.get("transform")
        if not isinstance(transform, str) or inner.transform is not None:
            raise _wrong(f"{transform!r} is not a transform of a column")
        return Term(inner.field, None if transform == "identity" else parse_transform(transform))
    if isinstance(said, dict) and said.get("type") == "reference":
        id = said.get("id")
        if isinstance(id, int):
            return Term(fields.by_id(id, "filter"))
        said = said.get("name", said.get("term"))
    if not isinstance(said, str):
        raise _wrong(f"{said!r} names no column")
    return Term(fields.named(said, "filter"))


def _require_known_columns(said: Any, fields: Fields) -> None:
    if isinstance(said, dict):
        if _is_term(said):
            _parse_term(said, fields)
        for part in said.values():
            _require_known_columns(part, fields)
    elif isinstance(said, list):
        for part in said:
            _require_known_columns(part, fields)


def _bound(op: str, term: Term, literals: list[Any]) -> Expression:
    kind = term.kind
    if op == "is-null" or op == "not-null":
        return op == "not-null" if term.field.is_required else Predicate(op, term)
    if op in ("is-nan", "not-nan"):
        return Predicate(op, term) if kind.is_float else op == "not-nan"
    if op in _PREFIXES and kind.name != "string":
        raise _wrong(f"{op} looks at texts, and '{term.field.name}' is of type {kind.name}")
    found = [from_wire(kind, literal, "filter") for literal in literals]
    # Zero and minus zero are equal here, and not in Java.
    values = tuple({repr(value): value for value in found}.values() if kind.is_float else dict.fromkeys(found))
    if op in _SETS and len(values) < 2:
        return Predicate("eq" if op == "in" else "not-eq", term, values) if values else op == "not-in"
    return Predicate(op, term, values)


def _wrong(problem: str) -> InvalidInput:
    return InvalidInput(f"filter: {problem}", field="filter")


# --- to the wire ----------------------------------------------------------------------------------------


def expression_to_wire(expression: Expression) -> Any:
    """In the older form: every client reads it, and none has learnt the newer one yet."""
    match expression:
        case Predicate(term=term, values=values) if term.kind.name == "float" and _is_beyond_floats(values):
            # Java's clients read a literal as a double, and think that no float equals one beyond all of them.
            return True
        case Predicate(op=op, term=term, values=values):
            said = {"type": op, "term": term.to_wire()}
            shown = [to_wire(term.kind, value) for value in values]
            if op in _SETS:
                return said | {"values": shown}
            return said | {"value": shown[0]} if shown else said
        case Joined(op=op, parts=parts):
            return _balanced(op, [expression_to_wire(part) for part in parts])
        case Opaque(said=opaque):
            return opaque
    return expression


def _is_beyond_floats(values: tuple[Value, ...]) -> bool:
    return any(isinstance(value, float) and math.isinf(value) for value in values)


def _balanced(op: str, parts: list[Any]) -> Any:
    """Halves of halves: clients recurse, and a long list would be too deep for them."""
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    return {"type": op, "left": _balanced(op, parts[:middle]), "right": _balanced(op, parts[middle:])}
