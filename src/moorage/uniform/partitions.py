"""Partition specs with identity transforms, and the partition values of files, which logs store as texts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final
from zoneinfo import ZoneInfo

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from moorage.formats.delta.actions import Metadata
from moorage.formats.delta.schema import Decimal, Primitive, Schema
from moorage.formats.iceberg.documents import Document
from moorage.snapshots.column_values import ColumnType, column_type, from_partition_text
from moorage.uniform import encoding
from moorage.uniform.bounds import single_values
from moorage.uniform.encoding import Bytes
from moorage.uniform.refusals import Refused
from moorage.uniform.schemas import Leaf

FIRST_FIELD_ID: Final = 1000


class PartitionColumn(msgspec.Struct, frozen=True, kw_only=True):
    """One partition column: its name in the log, and its field in the Iceberg spec."""

    name: str
    """The name in the partition values of the log."""
    shown: str
    leaf: Leaf
    kind: ColumnType
    field_id: int
    time_zone: str | None = None
    """The zone of timestamps that state none."""


def partition_columns(
    schema: Schema,
    metadata: Metadata,
    columns: dict[str, int],
    field_ids: dict[int, int],
    last: int,
    *,
    time_zone: str | None = None,
) -> tuple[PartitionColumn, ...]:
    """The partition columns in their order. `field_ids` are the partition field ids assigned earlier, by source id."""
    found = []
    for name in metadata.partition_columns:
        field = schema.field(name)
        data_type = None if field is None else field.type
        if isinstance(data_type, Primitive) and data_type.name.startswith(("varchar(", "char(")):
            data_type = Primitive("string")
        kind = None if data_type is None else column_type(data_type)
        if field is None or data_type is None or kind is None:
            raise Refused(f"the partition column '{name}' has a type that Iceberg cannot partition by")
        source = columns[field.name.lower()]
        if source not in field_ids:
            last += 1
            field_ids = {**field_ids, source: last}
        stored = field.physical_name if metadata.is_mapped else field.name
        leaf = Leaf((stored,), source, data_type)
        column = PartitionColumn(
            name=stored, shown=field.name, leaf=leaf, kind=kind, field_id=field_ids[source], time_zone=time_zone
        )
        found.append(column)
    return tuple(found)


def to_spec(columns: Sequence[PartitionColumn], id: int) -> Document:
    fields = [
        {"source-id": each.leaf.id, "field-id": each.field_id, "name": each.shown, "transform": "identity"}
        for each in columns
    ]
    return {"spec-id": id, "fields": fields}


def partition_values(files: pa.Table, column: PartitionColumn) -> pa.Array:
    """The values of one partition column, typed. Refused names the first value that cannot be parsed."""
    texts = pc.map_lookup(files["partitionValues"], pa.scalar(column.name), "first").combine_chunks()
    texts = pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)  # Delta writes null as an empty text
    distinct = pc.unique(texts).drop_null()
    parsed = [_parse(text, column) for text in distinct.to_pylist()]
    return pc.take(pa.array(parsed, column.kind.arrow), pc.index_in(texts, value_set=distinct))


def _parse(text: str, column: PartitionColumn) -> Any:
    if column.kind.name == "timestamp" and (local := _without_zone(text)) is not None:
        return local.replace(tzinfo=_zone(text, column)).astimezone(UTC)
    if column.kind.name in ("float", "double") and (special := _SPECIAL.get(text.lower())) is not None:
        return special
    value = from_partition_text(text, column.kind)[0]
    if value is None:
        raise Refused(f"the partition value {text!r} of column '{column.shown}' is not a {column.kind.name}")
    return value


_SPECIAL: Final = {
    "nan": float("nan"),
    **dict.fromkeys(("inf", "+inf", "infinity", "+infinity"), float("inf")),
    **dict.fromkeys(("-inf", "-infinity"), float("-inf")),
}
"""What Spark reads as these values. Spark writes `Infinity`, deltalake `inf`."""


def _without_zone(text: str) -> datetime | None:
    """The timestamp, if it is one that states no time zone."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is None else None


def _zone(text: str, column: PartitionColumn) -> ZoneInfo:
    """The time zone that the owner has set for values without one."""
    if column.time_zone is None:
        raise Refused(
            f"the partition value {text!r} of column '{column.shown}' has no time zone, so its meaning depends on the "
            "session that wrote it; set moorage.uniform.time-zone of the table to the zone of its writers, for example "
            "Europe/Oslo, or rewrite the table with a current version of Delta, which writes UTC"
        )
    try:
        return ZoneInfo(column.time_zone)
    except (KeyError, ValueError, OSError):  # an unknown name, a path, or the name of a folder
        raise Refused(
            f"moorage.uniform.time-zone is {column.time_zone!r}, which is not the name of a time zone; "
            "use one like Europe/Oslo or UTC"
        ) from None


# --- in manifests ---------------------------------------------------------------------------------------


def encoded_values(values: pa.Array, column: PartitionColumn) -> Bytes:
    """The values of one partition column as a field of the manifest entries."""
    return encoding.optional(_encoded(values, column), values.is_valid())


def _encoded(values: pa.Array, column: PartitionColumn) -> pa.BinaryArray:
    kind = column.leaf.type
    if isinstance(kind, Decimal):
        return encoding.big_endian_decimals(values, decimal_width(kind.precision))
    match column.kind.name:
        case "integer":
            return encoding.longs(encoding.to_integers(values.fill_null(0)))
        case "date":
            return encoding.longs(encoding.to_integers(values.cast(pa.int32()).fill_null(0)))
        case "timestamp" | "timestamp_ntz":
            return encoding.longs(encoding.to_integers(values.cast(pa.int64()).fill_null(0)))
        case "string":
            return encoding.texts(pc.fill_null(values, ""))
    return single_values(values, column.leaf)


def decimal_width(precision: int) -> int:
    """The bytes of a fixed that holds every decimal of this precision."""
    return next(width for width in range(1, 17) if 10**precision - 1 < 2 ** (8 * width - 1))


def avro_field(column: PartitionColumn, *, name: str) -> Document:
    kind: Any
    match column.kind.name, column.leaf.type:
        case "integer", Primitive(name=exact):
            kind = "long" if exact == "long" else "int"
        case "date", _:
            kind = {"type": "int", "logicalType": "date"}
        case ("timestamp" | "timestamp_ntz") as exact, _:
            kind = {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": exact == "timestamp"}
        case "decimal", Decimal(precision=precision, scale=scale):
            width = decimal_width(precision)
            logical = {"logicalType": "decimal", "precision": precision, "scale": scale}
            kind = {"type": "fixed", "name": f"decimal_{column.field_id}", "size": width, **logical}
        case _:
            kind = column.kind.name
    return {"name": name, "type": ["null", kind], "default": None, "field-id": column.field_id}


def summary(values: pa.Array, column: PartitionColumn) -> Document:
    """The summary of one partition column over the files of a manifest."""
    has_nan = column.kind.name in ("float", "double") and bool(pc.any(pc.is_nan(values)).as_py())
    known = values.drop_null()
    if has_nan:
        known = known.filter(pc.invert(pc.is_nan(known)))
    lower = upper = None
    if len(known):
        bounds = pc.min_max(known).as_py()
        pair = pa.array([bounds["min"], bounds["max"]], values.type)
        lower, upper = single_values(pair, column.leaf).to_pylist()
    return {
        "contains_null": values.null_count > 0,
        "contains_nan": has_nan,
        "lower_bound": lower,
        "upper_bound": upper,
    }


def sort_keys(files: pa.Table, columns: Sequence[PartitionColumn]) -> pa.Table:
    """The files sorted by their partition values, so that a manifest covers few partitions."""
    if not columns:
        return files
    keys = {f"key{at}": partition_values(files, column) for at, column in enumerate(columns)}
    order = pc.sort_indices(pa.table(keys), sort_keys=[(name, "ascending") for name in keys])
    return files.take(order)
