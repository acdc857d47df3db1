"""Partition specs for scan planning: the source column and transform of each partition value."""

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
    """One partition field: its position, and the source of its values."""

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
        """Whether its values are exactly those that a predicate tests."""
        return term.transform == (None if self.transform.name == "identity" else self.transform)

    def predicate(self, op: str, *values: Value) -> Predicate:
        """A predicate on its values. The field id in it is the position in the partition."""
        return Predicate(op, Term(Field(self.position, self.name, self.kind, is_required=False)), values)


Spec = tuple[PartitionField, ...]


def specs_of(table: Document) -> dict[int, Spec]:
    """All specs of a table by id. The types of dropped columns come from older schemas."""
    schemas = sorted(table["schemas"], key=lambda schema: schema["schema-id"] == table["current-schema-id"])
    kinds: dict[int, Primitive] = {}
    source_ids = {field.get("source-id") for spec in table["partition-specs"] for field in spec["fields"]}
    while source_ids - kinds.keys() and schemas:
        columns = fields_by_id(schemas.pop())
        for id in source_ids & columns.keys() - kinds.keys():
            kinds[id] = parse_primitive(str(columns[id]["type"]))
    return {
        spec["spec-id"]: tuple(_field(position, field, kinds) for position, field in enumerate(spec["fields"]))
        for spec in table["partition-specs"]
    }


def _field(position: int, field: Document, kinds: dict[int, Primitive]) -> PartitionField:
    source = field.get("source-id", -1)
    transform = parse_transform(field["transform"])
    return PartitionField(position, field["field-id"], field["name"], source, kinds.get(source, _UNKNOWN), transform)
