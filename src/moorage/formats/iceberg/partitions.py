"""Partition specs: how rows are spread over files."""

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
        raise InvalidInput(f"{transform!r} is not a transform that this catalog knows", field="transform")
    return transform


def numbered_spec(spec: Document, table: Document) -> Document:
    """The spec with an id for every field: one that it brings, the one of an equal field, or the next free one."""
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
        # The order of the keys is that of the specification: people read these files.
        fields.append(
            {"source-id": source, "field-id": id, "name": text_of(field, "name"), "transform": transform},
        )
    return {"spec-id": spec.get("spec-id", 0), "fields": fields}


def require_fitting_spec(spec: Document, schema: Document, *, format_version: int) -> None:
    """Every field has a column to come from and a name that is free."""
    if not spec["fields"]:
        return
    columns = fields_by_id(schema)
    top = {field["name"]: field["id"] for field in schema["fields"]}
    names, sources, ids = set[str](), set[tuple[int, str]](), set[int]()
    for position, field in enumerate(spec["fields"]):
        name, source, transform = field["name"], field["source-id"], field["transform"]
        _require_column(columns, field)
        # A partition may carry its column's name only if it also carries its values.
        if name in names or (name in top and (transform, top[name]) not in ((_VOID, source), ("identity", source))):
            raise InvalidInput(f"the partition field '{name}' has the name of another field", field="spec.fields.name")
        if ((source, transform) in sources and transform != _VOID) or field["field-id"] in ids:
            raise InvalidInput(f"the partition field '{name}' repeats another", field="spec.fields")
        if format_version == 1 and field["field-id"] != FIRST_FIELD_ID + position:
            raise InvalidInput("in format version 1 partition fields are numbered from 1000 on", field="spec.fields")
        names.add(name)
        sources.add((source, transform))
        ids.add(field["field-id"])


def require_sources(spec: Document, schema: Document) -> None:
    """The default spec must fit the current schema, or nobody could write."""
    columns = fields_by_id(schema) if spec["fields"] else {}
    for field in spec["fields"]:
        _require_column(columns, field)


def _require_column(columns: dict[int, Document], field: Document) -> None:
    column, transform = columns.get(field["source-id"]), field["transform"]
    if column is not None:
        require_transformable(column, transform, f"the partition field '{field['name']}'", "spec.fields.source-id")
    elif transform != _VOID:
        raise InvalidInput(
            f"the partition field '{field['name']}' comes from column {field['source-id']}, which does not exist",
            field="spec.fields.source-id",
        )


def require_transformable(column: Document, transform: str, user: str, source: str) -> None:
    """The column has values from which the transform makes others; `user` is who needs them."""
    kind = column["type"]
    if not isinstance(kind, str):
        raise InvalidInput(f"{user} comes from '{column['name']}', which has parts", field=source)
    if not can_transform(parse_transform(transform), parse_primitive(kind)):
        raise InvalidInput(
            f"{user} is {transform} of '{column['name']}', which cannot be: that is {kind}", field=source
        )


def is_same_spec(one: Document, other: Document) -> bool:
    """Whether both spread rows alike, whatever numbers their fields have."""
    keys = ("source-id", "transform", "name")
    spread = [[tuple(field[key] for key in keys) for field in spec["fields"]] for spec in (one, other)]
    return spread[0] == spread[1]


def last_field_id(spec: Document) -> int:
    return max((field["field-id"] for field in spec["fields"]), default=FIRST_FIELD_ID - 1)


def _all_fields(table: Document) -> list[Document]:
    return [field for spec in table.get("partition-specs", ()) for field in spec["fields"]]
