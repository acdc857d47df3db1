"""Column statistics of files, parsed from the JSON texts in a log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any, NamedTuple, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from moorage.snapshots.column_values import ColumnType, from_json, from_json_value

Path: TypeAlias = tuple[str, ...]
Wanted: TypeAlias = Sequence[tuple[Path, ColumnType]]
_BATCH_TEXTS = 16_384


class Statistics(NamedTuple):
    """The statistics of one column, per file. Null means that the file has none."""

    lower: pa.ChunkedArray
    upper: pa.ChunkedArray
    nulls: pa.ChunkedArray
    rows: pa.ChunkedArray


def read_statistics(texts: pa.ChunkedArray, wanted: Wanted) -> dict[Path, Statistics]:
    """Parse the statistics of these columns."""
    batches = [_read(batch, wanted) for batch in _batches(texts)]
    return {
        path: Statistics(
            *(
                pa.chunked_array([batch[path][at] for batch in batches], arrow)
                for at, arrow in enumerate((kind.arrow, kind.arrow, pa.int64(), pa.int64()))
            )
        )
        for path, kind in wanted
    }


def _batches(texts: pa.ChunkedArray) -> Iterator[pa.Array]:
    """Split the texts into batches, so that one irregular text slows down its batch and not all texts."""
    for chunk in texts.chunks:
        for start in range(0, len(chunk), _BATCH_TEXTS):
            yield chunk.slice(start, _BATCH_TEXTS)


def _read(texts: pa.Array, wanted: Wanted) -> dict[Path, tuple[pa.Array, ...]]:
    try:
        return _read_batch(texts, wanted)
    except pa.ArrowException:
        return _read_one_by_one(texts, wanted)


def _read_batch(texts: pa.Array, wanted: Wanted) -> dict[Path, tuple[pa.Array, ...]]:
    lines = pc.fill_null(texts, "{}")
    joined = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(lines)], pa.int32()), lines), "\n")[0].as_buffer()
    table = pj.read_json(
        pa.BufferReader(joined),
        read_options=pj.ReadOptions(use_threads=False, block_size=joined.size + 1),
        parse_options=pj.ParseOptions(explicit_schema=_schema(wanted), unexpected_field_behavior="ignore"),
    )
    if table.num_rows != len(texts):
        raise pa.ArrowInvalid("a text does not contain exactly one JSON object")
    rows = table["numRecords"].combine_chunks()
    return {
        path: (
            from_json(_field(table["minValues"], path), kind).combine_chunks(),
            from_json(_field(table["maxValues"], path), kind).combine_chunks(),
            _field(table["nullCount"], path).combine_chunks(),
            rows,
        )
        for path, kind in wanted
    }


def _field(column: pa.ChunkedArray, path: Path) -> pa.ChunkedArray:
    return pc.struct_field(column, list(path))


def _schema(wanted: Wanted) -> pa.Schema:
    """Return the fields to parse. The reader skips all others."""
    bounds, counts = _nested(wanted), _nested([(path, kind._replace(json=pa.int64())) for path, kind in wanted])
    return pa.schema([("numRecords", pa.int64()), ("minValues", bounds), ("maxValues", bounds), ("nullCount", counts)])


def _nested(wanted: Wanted) -> pa.DataType:
    fields: dict[str, Any] = {}
    for path, kind in wanted:
        fields.setdefault(path[0], []).append((path[1:], kind))
    return pa.struct(
        [(name, inner[0][1].json if not inner[0][0] else _nested(inner)) for name, inner in fields.items()]
    )


# --- the slow path, for irregular texts ----------------------------------------------------------------


_decode = msgspec.json.Decoder(dict[str, Any], float_hook=Decimal).decode


def _read_one_by_one(texts: pa.Array, wanted: Wanted) -> dict[Path, tuple[pa.Array, ...]]:
    read = [_object(text) for text in texts.to_pylist()]
    rows = pa.array([_count(row.get("numRecords")) for row in read], pa.int64())
    return {
        path: (
            pa.array([from_json_value(_inner(row.get("minValues"), path), kind) for row in read], kind.arrow),
            pa.array([from_json_value(_inner(row.get("maxValues"), path), kind) for row in read], kind.arrow),
            pa.array([_count(_inner(row.get("nullCount"), path)) for row in read], pa.int64()),
            rows,
        )
        for path, kind in wanted
    }


def _object(text: str | None) -> dict[str, Any]:
    try:
        return {} if text is None else _decode(text)
    except (msgspec.MsgspecError, ArithmeticError, RecursionError):
        return {}


def _inner(value: object, path: Path) -> object:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63 else None
