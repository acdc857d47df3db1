"""Filters of scans: parsed, bound to the columns of a schema, normalized to contain no `not`, and serialized.

An expression is True, False, a predicate on one column, an opaque condition that only the client can evaluate,
or several expressions joined by `and` or `or`.
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

_MAX_DEPTH = 100
"""Levels of alternating `and` and `or`. A long list of conditions is one level."""


class Term(msgspec.Struct, frozen=True):
    """What a predicate tests: a column, or a transform of a column."""

    field: Field
    transform: Transform | None = None

    @property
    def kind(self) -> Primitive:
        """The type of the tested values."""
        return self.field.kind if self.transform is None else result_type(self.transform, self.field.kind)

    def to_wire(self) -> Any:
        if self.transform is None:
            return self.field.name
        return {"type": "transform", "transform": str(self.transform), "term": self.field.name}


class Predicate(msgspec.Struct, frozen=True):
    """A test of one term. `op` is its name on the wire."""

    op: str
    term: Term
    values: tuple[Value, ...] = ()


class Opaque(msgspec.Struct, frozen=True):
    """A valid condition that the server cannot evaluate, such as a function or a comparison of two columns."""

    raw: Any


class Joined(msgspec.Struct, frozen=True):
    """Several expressions of which all (`and`) or at least one (`or`) must hold."""

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
    """Join the parts and simplify the result."""
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
    """The expression with each predicate replaced."""
    match expression:
        case Predicate():
            return change(expression)
        case Joined(op=op, parts=parts):
            return join(op, (rewritten(part, change) for part in parts))
    return expression


# --- from the wire --------------------------------------------------------------------------------------


def parse_filter(raw: Any, fields: Fields) -> Expression:
    """A filter of a request, bound to the columns of a schema."""
    try:
        return _parse(raw, fields, negated=False, depth=0)
    except RecursionError:
        raise _invalid("a term is nested too deeply") from None


def _parse(raw: Any, fields: Fields, *, negated: bool, depth: int) -> Expression:
    if isinstance(raw, bool):
        return raw is not negated
    if not isinstance(raw, dict):
        raise _invalid(f"an expression must be an object or a boolean, got {raw!r}")
    if depth > _MAX_DEPTH:
        raise _invalid(f"it is nested more than {_MAX_DEPTH} levels deep")
    op = raw.get("type")
    if op in ("true", "false"):
        return (op == "true") is not negated
    if op == "literal" and isinstance(raw.get("value"), bool):
        return raw["value"] is not negated
    if op == "not":
        return _parse(raw.get("child"), fields, negated=not negated, depth=depth + 1)
    if op in ("and", "or"):
        chain = [_parse(part, fields, negated=negated, depth=depth + 1) for part in _chain(raw, op)]
        return join(op if not negated else _negated_op(op), chain)
    if not isinstance(op, str) or op not in _NEGATED:
        raise _invalid(f"{op!r} is not a predicate")
    return _parse_predicate(op, raw, fields, negated=negated)


def _negated_op(op: str) -> str:
    return "or" if op == "and" else "and"


def _chain(raw: Document, op: str) -> list[Any]:
    """The parts of `a and (b and (c …))`. Clients write long lists of conditions in this deeply nested form."""
    pending, parts = list[Any]([raw]), list[Any]()
    while pending:
        part = pending.pop()
        if isinstance(part, dict) and part.get("type") == op:
            pending += [part.get("right"), part.get("left")]
        else:
            parts.append(part)
    return parts


def _parse_predicate(op: str, raw: Document, fields: Fields, *, negated: bool) -> Expression:
    operands = _operands(op, raw)
    if operands is None:
        _require_known_columns(raw, fields)
    else:
        term = _parse_term(operands[0], fields)
        if not term.field.is_repeated and (term.transform is None or term.transform.is_known):
            name = _NEGATED[op] if negated else op
            return _bound(_FLIPPED[name] if operands[2] else name, term, operands[1])
    return Opaque({"type": "not", "child": raw} if negated else raw)


def _operands(op: str, raw: Document) -> tuple[Any, list[Any], bool] | None:
    """The term, its literals, and whether the operands are swapped; None if the test has another form.

    The older form has `term` and `value`, the newer one `child`, or `left` and `right`.
    """
    if op in _UNARY or op in _SETS:
        term = _as_transform(raw.get("term", raw.get("child")))
        return (term, _literals(op, raw), False) if _is_term(term) else _require_operands(term)
    if "term" in raw:
        return raw["term"], [_literal(raw.get("value"))], False
    left, right = _as_transform(raw.get("left")), _as_transform(raw.get("right"))
    if _is_term(left, bare=False) and not _is_expression(right):
        return left, [_literal(right)], False
    if op in _FLIPPED and _is_term(right, bare=False) and not _is_expression(left):
        return right, [_literal(left)], True
    return _require_operands(left, right)


def _require_operands(*operands: Any) -> tuple[Any, list[Any], bool] | None:
    if None in operands:
        raise _invalid("a predicate has no term")
    return None


_TRANSFORMS = ("identity", "year", "month", "day", "hour", "bucket", "truncate")
_FUNCTIONS_CATALOG = "iceberg_functions"
"""The catalog name under which partition transforms are functions."""


def _as_transform(raw: Any) -> Any:
    """Convert `bucket(16, id)` to the older transform form. Everything else stays unchanged."""
    if not isinstance(raw, dict) or raw.get("type") != "apply":
        return raw
    function, arguments = raw.get("function"), raw.get("arguments")
    if isinstance(function, dict):
        function = (
            function.get("identifier") if function.get("catalog", _FUNCTIONS_CATALOG) == _FUNCTIONS_CATALOG else None
        )
    if isinstance(function, list) and len(function) == 1:
        function = function[0]
    if function not in _TRANSFORMS or not isinstance(arguments, list):
        return raw
    *widths, term = [_literal(argument) for argument in arguments] or [None]
    if len(widths) != (function in ("bucket", "truncate")) or not _is_term(term):
        return raw
    return {"type": "transform", "transform": f"{function}[{widths[0]}]" if widths else function, "term": term}


def _is_term(raw: Any, *, bare: bool = True) -> bool:
    return (bare and isinstance(raw, str)) or (isinstance(raw, dict) and raw.get("type") in ("reference", "transform"))


def _is_expression(raw: Any) -> bool:
    return isinstance(raw, dict) and raw.get("type") != "literal"


def _literals(op: str, raw: Document) -> list[Any]:
    if op in _UNARY:
        return []
    values = raw.get("values")
    if isinstance(values, dict):
        values = values.get("values")
    if not isinstance(values, list):
        raise _invalid(f"{op} has no values")
    return [_literal(value) for value in values]


def _literal(raw: Any) -> Any:
    return raw.get("value") if isinstance(raw, dict) and raw.get("type") == "literal" else raw


def _parse_term(raw: Any, fields: Fields) -> Term:
    if isinstance(raw, dict) and raw.get("type") == "transform":
        inner, transform = _parse_term(raw.get("term"), fields), raw.get("transform")
        if not isinstance(transform, str) or inner.transform is not None:
            raise _invalid(f"{transform!r} is not a transform of a column")
        return Term(inner.field, None if transform == "identity" else parse_transform(transform))
    if isinstance(raw, dict) and raw.get("type") == "reference":
        id = raw.get("id")
        if isinstance(id, int):
            return Term(fields.by_id(id, "filter"))
        raw = raw.get("name", raw.get("term"))
    if not isinstance(raw, str):
        raise _invalid(f"{raw!r} is not the name of a column")
    return Term(fields.named(raw, "filter"))


def _require_known_columns(raw: Any, fields: Fields) -> None:
    if isinstance(raw, dict):
        if _is_term(raw):
            _parse_term(raw, fields)
        for part in raw.values():
            _require_known_columns(part, fields)
    elif isinstance(raw, list):
        for part in raw:
            _require_known_columns(part, fields)


def _bound(op: str, term: Term, literals: list[Any]) -> Expression:
    kind = term.kind
    if op == "is-null" or op == "not-null":
        return op == "not-null" if term.field.is_required else Predicate(op, term)
    if op in ("is-nan", "not-nan"):
        return Predicate(op, term) if kind.is_float else op == "not-nan"
    if op in _PREFIXES and kind.name != "string":
        raise _invalid(f"{op} requires a string column, but '{term.field.name}' has type {kind.name}")
    found = [from_wire(kind, literal, "filter") for literal in literals]
    # Zero and minus zero are equal in Python but not in Java.
    values = tuple({repr(value): value for value in found}.values() if kind.is_float else dict.fromkeys(found))
    if op in _SETS and len(values) < 2:
        return Predicate("eq" if op == "in" else "not-eq", term, values) if values else op == "not-in"
    return Predicate(op, term, values)


def _invalid(problem: str) -> InvalidInput:
    return InvalidInput(f"filter: {problem}", field="filter")


# --- to the wire ----------------------------------------------------------------------------------------


def expression_to_wire(expression: Expression) -> Any:
    """Serialize in the older form. Every client reads it, and no client supports the newer one yet."""
    match expression:
        case Predicate(term=term, values=values) if term.kind.name == "float" and _is_beyond_floats(values):
            # Java's clients read the literal as a double and conclude that no float equals a value beyond all floats.
            return True
        case Predicate(op=op, term=term, values=values):
            document = {"type": op, "term": term.to_wire()}
            literals = [to_wire(term.kind, value) for value in values]
            if op in _SETS:
                return document | {"values": literals}
            return document | {"value": literals[0]} if literals else document
        case Joined(op=op, parts=parts):
            return _balanced(op, [expression_to_wire(part) for part in parts])
        case Opaque(raw=opaque):
            return opaque
    return expression


def _is_beyond_floats(values: tuple[Value, ...]) -> bool:
    return any(isinstance(value, float) and math.isinf(value) for value in values)


def _balanced(op: str, parts: list[Any]) -> Any:
    """Build a balanced tree. Clients recurse, so a linear chain would be too deep for them."""
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    return {"type": op, "left": _balanced(op, parts[:middle]), "right": _balanced(op, parts[middle:])}
