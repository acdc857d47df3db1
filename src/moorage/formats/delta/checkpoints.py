"""Checkpoints of a Delta log: classic, multi-part, v2 in Parquet or JSON, and their sidecars.

Each file is read into a `Piece`. The pieces of one checkpoint together form the initial state.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import date, datetime
from itertools import pairwise
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from moorage.core.errors import Damaged
from moorage.formats.delta.actions import DomainMetadata, Metadata, Protocol, SetTransaction
from moorage.formats.delta.log_commits import Sidecar, read_lines
from moorage.formats.delta.replay import FILES, REQUIRED, LogState, Part, Slab, to_table

_TABLE_ACTIONS = ("metaData", "protocol", "txn", "domainMetadata", "sidecar")
_MAX_RUNS = 64


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of one checkpoint file."""

    protocol: Protocol | None = None
    metadata: Metadata | None = None
    transactions: tuple[SetTransaction, ...] = ()
    domains: tuple[DomainMetadata, ...] = ()
    sidecars: tuple[Sidecar, ...] = ()
    files: Any
    """A table with the columns of FILES."""


class _Row(msgspec.Struct, rename="camel"):
    meta_data: Metadata | None = None
    protocol: Protocol | None = None
    txn: SetTransaction | None = None
    domain_metadata: DomainMetadata | None = None
    sidecar: Sidecar | None = None


def read_json(data: bytes, source: str) -> Piece:
    """A v2 checkpoint in JSON."""
    lines = read_lines(data, source)
    files = to_table(line.add for line in lines if line.add is not None)
    return _piece([_Row(*(getattr(line, name) for name in _Row.__struct_fields__)) for line in lines], files)


def read_parquet(data: bytes, source: str) -> Piece:
    """A checkpoint, a part of a checkpoint, or a sidecar, in Parquet."""
    try:
        file = pq.ParquetFile(pa.BufferReader(data))
        return _piece(_rows(file), _files(file, source))
    except (pa.ArrowException, OSError, KeyError, UnicodeError, msgspec.ValidationError) as error:
        raise Damaged(f"{source} is damaged: {error}", file=source) from error


def state_of(version: int, pieces: Iterable[Piece], source: str) -> LogState:
    """The state in a complete checkpoint."""
    protocol, metadata = None, None
    transactions: dict[str, SetTransaction] = {}
    domains: dict[str, DomainMetadata] = {}
    tables: list[pa.Table] = []
    for piece in pieces:
        protocol, metadata = piece.protocol or protocol, piece.metadata or metadata
        transactions.update({txn.app_id: txn for txn in piece.transactions})
        domains.update({domain.domain: domain for domain in piece.domains if not domain.removed})
        tables.append(piece.files)
    if protocol is None or metadata is None:
        raise Damaged(f"{source} is damaged: it lacks protocol or metaData", file=source)
    files = pa.concat_tables([FILES.empty_table(), *tables])
    return LogState(
        version=version,
        protocol=protocol,
        metadata=metadata,
        transactions=transactions,
        domains=domains,
        parts=(Part(Slab(files), None, files.num_rows),) if files.num_rows else (),
    )


def _piece(rows: list[_Row], files: pa.Table) -> Piece:
    return Piece(
        protocol=next((row.protocol for row in rows if row.protocol is not None), None),
        metadata=next((row.meta_data for row in rows if row.meta_data is not None), None),
        transactions=tuple(row.txn for row in rows if row.txn is not None),
        domains=tuple(row.domain_metadata for row in rows if row.domain_metadata is not None),
        sidecars=tuple(row.sidecar for row in rows if row.sidecar is not None),
        files=files,
    )


def _rows(file: pq.ParquetFile) -> list[_Row]:
    """The rows that are not file actions: a few among thousands."""
    names = [name for name in _TABLE_ACTIONS if name in file.schema_arrow.names]
    if not names:
        return []
    table = file.read(columns=names)
    found = pa.chunked_array([pa.nulls(table.num_rows, pa.bool_())])
    for name in names:
        found = pc.or_kleene(found, pc.is_valid(table[name]))
    rows = table.filter(found).to_pylist(maps_as_pydicts="strict")
    return msgspec.convert([_without_nulls(row) for row in rows], list[_Row])


def _without_nulls(value: Any) -> Any:
    """Remove nulls. A Parquet struct has every field, and a null value is treated as absent."""
    if isinstance(value, dict):
        return {name: _without_nulls(inner) for name, inner in value.items() if inner is not None}
    return value


def _files(file: pq.ParquetFile, source: str) -> pa.Table:
    schema = file.schema_arrow
    if "add" not in schema.names:
        return FILES.empty_table()
    shape = schema.field("add").type
    present = {field.name for field in shape} if pa.types.is_struct(shape) else set()
    if missing := [name for name in REQUIRED if name not in present]:
        raise Damaged(f"{source} is damaged: its add column lacks {', '.join(missing)}", file=source)
    # Select columns by name. Otherwise the parsed statistics would be read too, and they only repeat `stats`.
    adds = file.read(columns=[f"add.{name}" for name in FILES.names if name in present])["add"]
    table = _valid_rows(_flat(adds), pc.is_valid(adds))
    if "stats_parsed" in present and ("stats" not in present or table["stats"].null_count):
        table = _with_parsed_statistics(table, file)
    table.validate(full=True)  # Parquet does not check that strings are valid UTF-8
    if nulls := [name for name in REQUIRED if table[name].null_count]:
        raise Damaged(f"{source} is damaged: an add has no {', '.join(nulls)}", file=source)
    return table


def _flat(adds: pa.ChunkedArray) -> pa.Table:
    """The fields of the struct as columns, in the types and the order of FILES."""
    names = [field.name for field in adds.type]
    chunks = [pa.Table.from_arrays(chunk.flatten(), names=names) for chunk in adds.chunks]
    table = pa.concat_tables(chunks) if chunks else adds.type.empty_table()
    columns = [
        table[field.name].cast(field.type) if field.name in names else pa.nulls(table.num_rows, field.type)
        for field in FILES
    ]
    return pa.table(columns, FILES)


def _valid_rows(table: pa.Table, valid: pa.ChunkedArray) -> pa.Table:
    """The rows that are adds. Contiguous rows are sliced and not copied, because a copy costs more than the read."""
    mask = valid.combine_chunks()
    if not len(mask) or mask.false_count == 0:
        return table
    boundaries = pc.indices_nonzero(pc.xor(mask[1:], mask[:-1])).to_pylist()
    if len(boundaries) > _MAX_RUNS:
        return table.filter(mask)
    edges = [0, *(boundary + 1 for boundary in boundaries), len(mask)]
    runs = [table.slice(start, end - start) for start, end in pairwise(edges) if mask[start].as_py()]
    return pa.concat_tables([FILES.empty_table(), *runs])


# --- statistics that a checkpoint stores only in parsed form ---------------------------------------


def _with_parsed_statistics(table: pa.Table, file: pq.ParquetFile) -> pa.Table:
    """Fill in `stats` from `stats_parsed`, for tables that do not write statistics as JSON."""
    read = file.read(columns=["add.path", "add.stats_parsed"])["add"]
    parsed = pc.struct_field(read.filter(pc.is_valid(read)), "stats_parsed")
    texts = pa.chunked_array(
        [[_statistics_text(row) for row in chunk.to_pylist()] for chunk in parsed.chunks], pa.string()
    )
    return table.set_column(FILES.names.index("stats"), "stats", pc.coalesce(table["stats"], texts))


_encode = msgspec.json.Encoder(decimal_format="number").encode


def _statistics_text(row: dict[str, Any] | None) -> str | None:
    return None if row is None else _encode(_plain(row)).decode()


def _plain(value: Any) -> Any:
    """The value as Delta writes it in JSON. Values that JSON cannot express are omitted."""
    if isinstance(value, dict):
        inner = {name: _plain(field) for name, field in value.items()}
        return {name: field for name, field in inner.items() if field is not None}
    if isinstance(value, datetime):
        text = value.replace(tzinfo=None).isoformat(timespec="milliseconds")
        return text if value.tzinfo is None else text + "Z"
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes | list) or (isinstance(value, float) and not math.isfinite(value)):
        return None
    return value
