"""Partition specs: how rows are distributed over files."""

from __future__ import annotations

import re

from moorage.core.errors import InvalidInput
from moorage.formats.iceberg.documents import Document, documents_of, id_of, id_or_none, text_of
from moorage.formats.iceberg.schemas import fields_by_id
from moorage.formats.iceberg.transforms import can_transform, parse_transform
from moorage.formats.iceberg.values import parse_primitive

FIRST_FIELD_ID = 1000

_TRANSFORM = re.compile(r"identity|year|month|day|hour|void|(bucket|truncate)\[[1-9]\d{0,9}\]")
_VOID = "void"


def require_transform(field: Document) -> str:
    transform = text_of(field, "transform")
    if not _TRANSFORM.fullmatch(transform) or parse_transform(transform).width >= 2**31:
        raise InvalidInput(f"{transform!r} is not a supported transform", field="transform")
    return transform


def numbered_spec(spec: Document, table: Document) -> Document:
    """The spec with an id for every field: its own id, the id of an equal field, or the next free id."""
    known = {(field["source-id"], field["transform"]): field["field-id"] for field in _all_fields(table)}
    last = max(table.get("last-partition-id", 0), FIRST_FIELD_ID - 1)
    fields = []
    for field in documents_of(spec, "fields"):
        source, transform = id_of(field, "source-id"), require_transform(field)
        id = id_or_none(field, "field-id")
        if id is None:
            id = known.get((source, transform))
        if id is None:
            id = last = last + 1
        # The keys are in the order of the specification, because people read these files.
        fields.append(
            {"source-id": source, "field-id": id, "name": text_of(field, "name"), "transform": transform},
        )
    return {"spec-id": spec.get("spec-id", 0), "fields": fields}


def require_fitting_spec(spec: Document, schema: Document, *, format_version: int) -> None:
    """Require that every field has an existing source column and a unique name."""
    if not spec["fields"]:
        return
    columns = fields_by_id(schema)
    top = {field["name"]: field["id"] for field in schema["fields"]}
    names, sources, ids = set[str](), set[tuple[int, str]](), set[int]()
    for position, field in enumerate(spec["fields"]):
        name, source, transform = field["name"], field["source-id"], field["transform"]
        _require_column(columns, field)
        # A partition field may have the name of a column only if it has the values of that column.
        if name in names or (name in top and (transform, top[name]) not in ((_VOID, source), ("identity", source))):
            raise InvalidInput(f"the partition field '{name}' has the name of another field", field="spec.fields.name")
        if ((source, transform) in sources and transform != _VOID) or field["field-id"] in ids:
            raise InvalidInput(f"the partition field '{name}' repeats another", field="spec.fields")
        if format_version == 1 and field["field-id"] != FIRST_FIELD_ID + position:
            raise InvalidInput("format version 1 needs consecutive partition field ids from 1000", field="spec.fields")
        names.add(name)
        sources.add((source, transform))
        ids.add(field["field-id"])


def require_sources(spec: Document, schema: Document) -> None:
    """Require that the default spec fits the current schema. Otherwise no client could write."""
    columns = fields_by_id(schema) if spec["fields"] else {}
    for field in spec["fields"]:
        _require_column(columns, field)


def _require_column(columns: dict[int, Document], field: Document) -> None:
    column, transform = columns.get(field["source-id"]), field["transform"]
    if column is not None:
        require_transformable(column, transform, f"the partition field '{field['name']}'", "spec.fields.source-id")
    elif transform != _VOID:
        raise InvalidInput(
            f"the partition field '{field['name']}' uses column {field['source-id']}, which does not exist",
            field="spec.fields.source-id",
        )


def require_transformable(column: Document, transform: str, user: str, source: str) -> None:
    """Require that the transform supports the type of the column. Messages begin with `user`."""
    kind = column["type"]
    if not isinstance(kind, str):
        raise InvalidInput(f"{user} uses '{column['name']}', which has a nested type", field=source)
    if not can_transform(parse_transform(transform), parse_primitive(kind)):
        raise InvalidInput(
            f"{user} uses {transform} of '{column['name']}', which does not support type {kind}", field=source
        )


def is_same_spec(one: Document, other: Document) -> bool:
    """Whether both specs distribute rows in the same way, regardless of their field ids."""
    keys = ("source-id", "transform", "name")
    keyed = [[tuple(field[key] for key in keys) for field in spec["fields"]] for spec in (one, other)]
    return keyed[0] == keyed[1]


def last_field_id(spec: Document) -> int:
    return max((field["field-id"] for field in spec["fields"]), default=FIRST_FIELD_ID - 1)


def _all_fields(table: Document) -> list[Document]:
    return [field for spec in table.get("partition-specs", ()) for field in spec["fields"]]
