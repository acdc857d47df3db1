"""Sort orders: how rows are ordered inside files."""

from __future__ import annotations

from moorage.core.errors import InvalidInput
from moorage.formats.iceberg.documents import Document, documents_of, id_of
from moorage.formats.iceberg.partitions import require_transform, require_transformable
from moorage.formats.iceberg.schemas import fields_by_id

UNSORTED: Document = {"order-id": 0, "fields": []}

_DIRECTIONS = ("asc", "desc")
_NULL_ORDERS = ("nulls-first", "nulls-last")


def parse_order(order: Document) -> Document:
    """Check that the transforms and directions of a sort order are known."""
    fields = []
    for field in documents_of(order, "fields"):
        direction, nulls = field.get("direction"), field.get("null-order")
        if direction not in _DIRECTIONS or nulls not in _NULL_ORDERS:
            raise InvalidInput(
                f"a sort field must have a direction of {_DIRECTIONS} and a null-order of {_NULL_ORDERS}",
                field="sort-order.fields",
            )
        source = id_of(field, "source-id")
        fields.append(
            {
                "transform": require_transform(field),
                "source-id": source,
                "direction": direction,
                "null-order": nulls,
            }
        )
    return {"order-id": order.get("order-id", 0), "fields": fields}


def require_fitting_order(order: Document, schema: Document) -> None:
    """Require that every field uses an existing column whose type its transform supports."""
    columns = fields_by_id(schema) if order["fields"] else {}
    for field in order["fields"]:
        column = columns.get(field["source-id"])
        if column is None:
            raise InvalidInput(
                f"the sort order uses column {field['source-id']}, which does not exist",
                field="sort-order.fields.source-id",
            )
        require_transformable(column, field["transform"], "the sort order", "sort-order.fields.source-id")
