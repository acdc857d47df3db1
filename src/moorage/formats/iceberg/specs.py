"""Partition specs as planning needs them: what each partition value is made of."""

from __future__ import annotations

import msgspec

from moorage.formats.iceberg.documents import Document
from moorage.formats.iceberg.expressions import Predicate, Term
from moorage.formats.iceberg.fields import Field
from moorage.formats.iceberg.schemas import fields_by_id
from moorage.formats.iceberg.transforms import Transform, parse_transform, result_type
from moorage.formats.iceberg.values import Primitive, Value, parse_primitive

_UNKNOWN = Primitive("unknown")


class PartitionField(msgspec.Struct, frozen=True):
    """One field of a partition: where its values stand, and what they are made of."""

    position: int
    id: int
    name: str
    source_id: int
    source_kind: Primitive
    transform: Transform

    @property
    def kind(self) -> Primitive:
        """The type of its values."""
        return result_type(self.transform, self.source_kind)

    def is_exact(self, term: Term) -> bool:
        """Whether it keeps the very values that a predicate looks at."""
        return term.transform == (None if self.transform.name == "identity" else self.transform)

    def predicate(self, op: str, *values: Value) -> Predicate:
        """A test of its values. The field's id is its position in the partition."""
        return Predicate(op, Term(Field(self.position, self.name, self.kind, is_required=False)), values)


Spec = tuple[PartitionField, ...]


def specs_of(table: Document) -> dict[int, Spec]:
    """All specs of a table by id. Columns that are gone by now are found in older schemas."""
    schemas = sorted(table["schemas"], key=lambda schema: schema["schema-id"] == table["current-schema-id"])
    known: dict[int, Primitive] = {}
    wanted = {field.get("source-id") for spec in table["partition-specs"] for field in spec["fields"]}
    while wanted - known.keys() and schemas:
        columns = fields_by_id(schemas.pop())
        for id in wanted & columns.keys() - known.keys():
            known[id] = parse_primitive(str(columns[id]["type"]))
    return {
        spec["spec-id"]: tuple(_field(position, field, known) for position, field in enumerate(spec["fields"]))
        for spec in table["partition-specs"]
    }


def _field(position: int, field: Document, kinds: dict[int, Primitive]) -> PartitionField:
    source = field.get("source-id", -1)
    transform = parse_transform(field["transform"])
    return PartitionField(position, field["field-id"], field["name"], source, kinds.get(source, _UNKNOWN), transform)
