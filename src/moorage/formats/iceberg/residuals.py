"""What is left of a filter once the partition of a file is known."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from moorage.formats.iceberg.expressions import Expression, Opaque, Predicate, expression_to_wire, join, rewritten
from moorage.formats.iceberg.metrics import FileTest, file_test
from moorage.formats.iceberg.projections import assured, included
from moorage.formats.iceberg.ranges import holds
from moorage.formats.iceberg.specs import Spec
from moorage.formats.iceberg.values import Partition

_encode = msgspec.json.Encoder().encode


class Residual(msgspec.Struct, frozen=True):
    """What rows of a file have yet to satisfy: nothing (True), or never mind (False), or some of the condition."""

    expression: Expression
    wire: bytes
    may_match: FileTest
    """Whether a file with these statistics can have such rows."""


def residuals(condition: Expression, spec: Spec) -> Callable[[Partition], Residual]:
    """The residual for each partition; the same partition is decided once."""
    plans = _plan(condition, spec)
    known: dict[Partition, Residual] = {}

    def of(values: Partition) -> Residual:
        found = known.get(values)
        if found is None:
            left = rewritten(condition, lambda predicate: _left(predicate, values, *plans[predicate]))
            found = known[values] = Residual(left, _encode(expression_to_wire(left)), file_test(left))
        return found

    return of


def _plan(condition: Expression, spec: Spec) -> dict[Predicate, tuple[Expression, Expression]]:
    found: dict[Predicate, tuple[Expression, Expression]] = {}

    def note(predicate: Predicate) -> Expression:
        found[predicate] = (included(predicate, spec), assured(predicate, spec))
        return predicate

    rewritten(condition, note)
    return found


def _left(predicate: Predicate, values: Partition, maybe: Expression, surely: Expression) -> Expression:
    if evaluated(surely, values, nan=False):
        return True
    return predicate if evaluated(maybe, values, nan=True) else False


def evaluated(projected: Expression, values: Partition, *, nan: bool) -> bool:
    """Whether a partition satisfies what was projected upon it; its fields are numbered by position."""
    match projected:
        case bool():
            return projected
        case Predicate():
            return holds(projected, values[projected.term.field.id], nan=nan)
        case Opaque():
            return True
    parts = (evaluated(part, values, nan=nan) for part in projected.parts)
    return all(parts) if projected.op == "and" else any(parts)


def projection(condition: Expression, spec: Spec) -> Expression:
    """What must hold of a partition that has a matching row."""
    found = rewritten(condition, lambda predicate: included(predicate, spec))
    # What only the client can decide may hold anywhere.
    return _without_opaque(found)


def _without_opaque(expression: Expression) -> Expression:
    if isinstance(expression, Opaque):
        return True
    if isinstance(expression, bool | Predicate):
        return expression
    return join(expression.op, (_without_opaque(part) for part in expression.parts))
