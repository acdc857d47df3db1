"""What a Delta table can contain that Iceberg cannot express, or that Iceberg's readers would read wrongly."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from moorage.formats.delta.actions import Metadata, Protocol
from moorage.formats.delta.schema import Array, DataType, Decimal, Field, Map, Primitive, Schema

READER_FEATURES: Final = frozenset(
    (
        *("catalogManaged", "catalogOwned-preview", "columnMapping", "deletionVectors", "timestampNtz"),
        *("typeWidening", "typeWidening-preview", "v2Checkpoint", "vacuumProtocolCheck"),
        *("variantType", "variantType-preview", "variantShredding", "variantShredding-preview"),
    )
)
"""The reader features whose effect on a table the conversion expresses."""
COMPAT_TAG: Final = "ICEBERG_COMPAT_VERSION"
"""The tag that Delta gives to files which contain ids for the elements of arrays and maps."""
REWRITE: Final = "set delta.enableIcebergCompatV2 or V3 to true, and rewrite the files"
_NESTED_IDS: Final = "delta.columnMapping.nested.ids"
_INTEGERS: Final = ("byte", "short", "integer", "long")


class Refused(Exception):
    """A version of a Delta table cannot be converted. The text says why, and what would help."""


def projectable(protocol: Protocol, metadata: Metadata, schema: Schema) -> tuple[str, ...]:
    """Why a table cannot be read as an Iceberg table; empty if it can. Files are checked when they are converted."""
    return (*_protocol_reasons(protocol), *_column_reasons(schema, metadata), *_partition_reasons(schema, metadata))


def _protocol_reasons(protocol: Protocol) -> Iterator[str]:
    if protocol.min_reader_version > 3:
        yield f"the table requires reader version {protocol.min_reader_version}; up to 3 can be converted"
    if unknown := frozenset(protocol.reader_features) - READER_FEATURES:
        yield f"the table uses reader features that cannot be converted: {', '.join(sorted(unknown))}"


def _column_reasons(schema: Schema, metadata: Metadata) -> Iterator[str]:
    for name, field in _fields(schema, ""):
        for kind in _types(field.type):
            if isinstance(kind, Primitive) and kind.name.split("(")[0] not in _KNOWN:
                yield f"column '{name}' has the type {kind.name}, which Iceberg does not have"
            if isinstance(kind, Decimal) and not 0 < kind.precision <= 38:
                yield f"column '{name}' has a decimal type without a precision between 1 and 38"
        if field.is_collated:
            yield f"column '{name}' has a collation, which Iceberg does not have"
        if metadata.is_mapped and _has_unnumbered_parts(field):
            yield (
                f"column '{name}' has an array or a map without ids for its elements, which Iceberg readers would read "
                f"as null; {REWRITE}"
            )
        for change in field.metadata.get("delta.typeChanges") or ():
            if isinstance(change, dict) and not _is_readable_change(change):
                yield (
                    f"the type of column '{name}' was changed from {change.get('fromType')} to {change.get('toType')}, "
                    "and Iceberg readers cannot read the older files as the new type; rewrite the table"
                )


_KNOWN: Final = frozenset(
    (
        *("boolean", "byte", "short", "integer", "long", "float", "double", "string", "binary", "date", "timestamp"),
        *("timestamp_ntz", "variant", "varchar", "char"),
    )
)


def _fields(schema: Schema, above: str) -> Iterator[tuple[str, Field]]:
    for field in schema.fields:
        name = f"{above}{field.name}"
        yield name, field
        for inner in _structs(field.type):
            yield from _fields(inner, f"{name}.")


def _structs(kind: DataType) -> Iterator[Schema]:
    match kind:
        case Schema():
            yield kind
        case Array(element=element):
            yield from _structs(element)
        case Map(key=key, value=value):
            yield from _structs(key)
            yield from _structs(value)


def _types(kind: DataType) -> Iterator[DataType]:
    """The types of a field, without those of fields inside it."""
    match kind:
        case Array(element=element):
            yield from _types(element)
        case Map(key=key, value=value):
            yield from _types(key)
            yield from _types(value)
        case Schema():
            return
        case _:
            yield kind


def _has_unnumbered_parts(field: Field) -> bool:
    nested = field.metadata.get(_NESTED_IDS)
    stated: dict[str, Any] = nested if isinstance(nested, dict) else {}
    return any(not isinstance(stated.get(key), int) for key in _parts(field.type, field.physical_name))


def _parts(kind: DataType, path: str) -> Iterator[str]:
    match kind:
        case Array(element=element):
            yield f"{path}.element"
            yield from _parts(element, f"{path}.element")
        case Map(key=key, value=value):
            yield from (f"{path}.key", f"{path}.value")
            yield from _parts(key, f"{path}.key")
            yield from _parts(value, f"{path}.value")


def has_repeated(schema: Schema) -> bool:
    """Whether a column is or contains an array or a map."""
    return any(any(True for _ in _parts(field.type, "")) for _, field in _fields(schema, ""))


def _is_readable_change(change: dict[str, Any]) -> bool:
    before, after = str(change.get("fromType")), str(change.get("toType"))
    if before in _INTEGERS and after in _INTEGERS:
        return _INTEGERS.index(before) <= _INTEGERS.index(after)
    if (before, after) == ("float", "double"):
        return True
    numbers = [_decimal(text) for text in (before, after)]
    return None not in numbers and numbers[0][1] == numbers[1][1] and numbers[0][0] <= numbers[1][0]  # type: ignore[index]


def _decimal(text: str) -> tuple[int, int] | None:
    inner = text.removeprefix("decimal(").removesuffix(")").split(",")
    return (int(inner[0]), int(inner[1])) if text.startswith("decimal(") and len(inner) == 2 else None


def _partition_reasons(schema: Schema, metadata: Metadata) -> Iterator[str]:
    for name in metadata.partition_columns:
        field = schema.field(name)
        if field is None:
            yield f"the partition column '{name}' is not in the schema"
        elif isinstance(field.type, Primitive) and field.type.name in ("binary", "variant"):
            yield f"the table is partitioned by the {field.type.name} column '{name}', whose values a log cannot store"
        elif not isinstance(field.type, Primitive | Decimal):
            yield f"the table is partitioned by the nested column '{name}'"
