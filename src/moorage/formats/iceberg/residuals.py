"""Residual filters: the part of a filter that remains when the partition of a file is known."""

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
    """The remaining filter for the rows of a file: True (all match), False (none match), or a part of the condition."""

    expression: Expression
    wire: bytes
    may_match: FileTest
    """Whether a file with these statistics can have matching rows."""


def residuals(condition: Expression, spec: Spec) -> Callable[[Partition], Residual]:
    """A function that returns the residual of a partition, cached per partition."""
    plans = _plan(condition, spec)
    known: dict[Partition, Residual] = {}

    def residual_of(values: Partition) -> Residual:
        found = known.get(values)
        if found is None:
            remaining = rewritten(condition, lambda predicate: _residual(predicate, values, *plans[predicate]))
            found = known[values] = Residual(remaining, _encode(expression_to_wire(remaining)), file_test(remaining))
        return found

    return residual_of


def _plan(condition: Expression, spec: Spec) -> dict[Predicate, tuple[Expression, Expression]]:
    found: dict[Predicate, tuple[Expression, Expression]] = {}

    def project(predicate: Predicate) -> Expression:
        found[predicate] = (included(predicate, spec), assured(predicate, spec))
        return predicate

    rewritten(condition, project)
    return found


def _residual(predicate: Predicate, values: Partition, inclusive: Expression, strict: Expression) -> Expression:
    if evaluated(strict, values, nan=False):
        return True
    return predicate if evaluated(inclusive, values, nan=True) else False


def evaluated(projected: Expression, values: Partition, *, nan: bool) -> bool:
    """Whether a partition satisfies a projected expression, whose field ids are positions in the partition."""
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
    """The condition that every partition with a matching row satisfies."""
    found = rewritten(condition, lambda predicate: included(predicate, spec))
    # A condition that only the client can evaluate may hold in any partition.
    return _without_opaque(found)


def _without_opaque(expression: Expression) -> Expression:
    if isinstance(expression, Opaque):
        return True
    if isinstance(expression, bool | Predicate):
        return expression
    return join(expression.op, (_without_opaque(part) for part in expression.parts))
