"""The table part of converted metadata: format version, schemas, partition specs and properties."""

from __future__ import annotations

from typing import Final

import msgspec

from moorage.formats.delta.actions import Metadata, Protocol
from moorage.formats.delta.schema import Array, DataType, Map, Primitive, Schema, parse_schema
from moorage.formats.iceberg.documents import Document
from moorage.formats.iceberg.schemas import is_same_schema
from moorage.formats.iceberg.table_metadata import empty_table
from moorage.uniform.manifests import Shape
from moorage.uniform.partitions import FIRST_FIELD_ID, PartitionColumn, partition_columns, to_spec
from moorage.uniform.refusals import COMPAT_TAG, REWRITE, Refused, has_repeated, projectable
from moorage.uniform.schemas import (
    NAME_MAPPING,
    convert_schema,
    from_name_mapping,
    highest_delta_id,
    to_name_mapping,
    with_former,
)

VERSION: Final = "delta-version"
TIMESTAMP: Final = "delta-timestamp"
_MAPPED: Final = "moorage.column-mapping"
"""Whether the ids of the metadata are Delta's. Readers ignore it; the next conversion needs it."""
_TIME_ZONE: Final = "moorage.time-zone"
"""The zone of partition values that state none. Readers ignore it; the next conversion needs it."""
_ROW_TRACKING: Final = "delta.enableRowTracking"


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """A Delta table at the version to convert."""

    id: str
    root: str
    """Its location, which ends with a slash."""
    protocol: Protocol
    metadata: Metadata
    time_zone: str | None = None
    """The zone of timestamps in partition values that state none."""

    @property
    def schema(self) -> Schema:
        return parse_schema(self.metadata.schema_string)

    @property
    def tracks_rows(self) -> bool:
        return self.metadata.configuration.get(_ROW_TRACKING) == "true"

    @property
    def needs_tags(self) -> bool:
        """Whether only files with a tag of Delta contain the ids of elements."""
        return self.metadata.is_mapped and has_repeated(self.schema)


class Described(msgspec.Struct, frozen=True):
    """Metadata with the schema and the spec of a version, but without its snapshot."""

    doc: Document
    shape: Shape


def empty_document(table: Table) -> Document:
    """The metadata of a table that was never converted."""
    return {
        **empty_table(uuid=table.id, format_version=2),
        "location": table.root.rstrip("/"),
        "last-updated-ms": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "default-sort-order-id": 0,
    }


def has_other_ids(doc: Document, table: Table) -> bool:
    """Whether the ids of the metadata are not those of the table, because column mapping was switched on or off."""
    stated = doc["properties"].get(_MAPPED)
    return stated is not None and stated != str(table.metadata.is_mapped).lower()


def has_other_zone(doc: Document, table: Table) -> bool:
    """Whether partition values were read in another time zone, because the owner has changed it."""
    stated: str | None = doc["properties"].get(_TIME_ZONE)
    return stated != table.time_zone


def started_anew(doc: Document) -> Document:
    """The metadata without history: same identity, and counters that go on."""
    kept = {key: value for key, value in doc.items() if key != "current-snapshot-id"}
    history: Document = {"schemas": [], "partition-specs": [], "snapshots": [], "snapshot-log": [], "refs": {}}
    return {**kept, **history}


def describe(doc: Document, table: Table, *, has_vectors: bool) -> Described:
    """The metadata with the table's schema, partition spec and properties. Refused if Iceberg cannot express them."""
    schema = table.schema
    if reasons := projectable(table.protocol, table.metadata, schema):
        raise Refused("; ".join(reasons))
    version = _format_version(doc, table, schema, has_vectors=has_vectors)
    former = from_name_mapping(doc["properties"].get(NAME_MAPPING))
    known = former if doc["schemas"] else {}
    last_id = max(doc["last-column-id"], highest_delta_id(schema) if table.metadata.is_mapped else 0)
    converted = with_former(convert_schema(schema, table.metadata, known, last_id), former)
    doc, current = _with_schema(doc, {"type": "struct", "fields": converted.fields})
    doc, columns, spec = _with_spec(doc, table, schema, converted.columns)
    properties = {
        **{name: value for name, value in doc["properties"].items() if name != _TIME_ZONE},
        NAME_MAPPING: to_name_mapping(converted.ids),
        _MAPPED: str(table.metadata.is_mapped).lower(),
        "gc.enabled": "false",
        **({} if table.time_zone is None else {_TIME_ZONE: table.time_zone}),
    }
    doc = {**doc, "format-version": version, "last-column-id": converted.last_id, "properties": properties}
    if version >= 3:
        doc.setdefault("next-row-id", 0)
    shape = Shape(format_version=version, schema=current, spec=spec, columns=columns, leaves=converted.leaves)
    return Described(doc, shape)


def _format_version(doc: Document, table: Table, schema: Schema, *, has_vectors: bool) -> int:
    """Version 3 only if something needs it: PyIceberg cannot read old timestamps of Spark in a table of version 3."""
    needs = (
        has_vectors
        or table.tracks_rows
        or table.metadata.configuration.get("delta.enableIcebergCompatV3") == "true"
        or _has_variant(schema)
    )
    return 3 if needs else max(2, doc["format-version"])


def _has_variant(kind: DataType) -> bool:
    match kind:
        case Primitive(name=name):
            return name == "variant"
        case Schema(fields=fields):
            return any(_has_variant(field.type) for field in fields)
        case Array(element=element):
            return _has_variant(element)
        case Map(key=key, value=value):
            return _has_variant(key) or _has_variant(value)
    return False


def _with_schema(doc: Document, schema: Document) -> tuple[Document, Document]:
    for known in doc["schemas"]:
        if is_same_schema(known, schema):
            return {**doc, "current-schema-id": known["schema-id"]}, known
    id = max((each["schema-id"] for each in doc["schemas"]), default=-1) + 1
    current = {"type": "struct", "schema-id": id, "fields": schema["fields"]}
    return {**doc, "schemas": [*doc["schemas"], current], "current-schema-id": id}, current


def _with_spec(
    doc: Document, table: Table, schema: Schema, ids: dict[str, int]
) -> tuple[Document, tuple[PartitionColumn, ...], Document]:
    fields = [field for spec in doc["partition-specs"] for field in spec["fields"]]
    known = {field["source-id"]: field["field-id"] for field in fields}
    last = max(doc["last-partition-id"], FIRST_FIELD_ID - 1)
    columns = partition_columns(schema, table.metadata, ids, known, last, time_zone=table.time_zone)
    wanted = [(column.leaf.id, column.field_id) for column in columns]
    specs = [_renamed(spec, schema, ids) for spec in doc["partition-specs"]]
    spec = next((each for each in specs if _sources(each) == wanted), None)
    if spec is None:
        spec = to_spec(columns, max((each["spec-id"] for each in specs), default=-1) + 1)
        specs.append(spec)
    last = max([last, *(column.field_id for column in columns)])
    doc = {**doc, "partition-specs": specs, "default-spec-id": spec["spec-id"], "last-partition-id": last}
    return doc, columns, spec


def _sources(spec: Document) -> list[tuple[int, int]]:
    return [(field["source-id"], field["field-id"]) for field in spec["fields"]]


def _renamed(spec: Document, schema: Schema, ids: dict[str, int]) -> Document:
    """A spec with the current names of its columns: a new column may have the former name of a partition column."""
    names = {ids[field.name.lower()]: field.name for field in schema.fields}
    taken = {field.name.lower() for field in schema.fields}

    def name(field: Document) -> str:
        if field["source-id"] in names:
            return names[field["source-id"]]
        former: str = field["name"]
        return f"{former}_{field['field-id']}" if former.lower() in taken else former

    return {**spec, "fields": [{**field, "name": name(field)} for field in spec["fields"]]}


def untagged(path: str) -> Refused:
    return Refused(
        f"the file {path} has arrays or maps without ids for their elements ({COMPAT_TAG} is missing), which Iceberg "
        f"readers would read as null; {REWRITE}"
    )
