"""Building, describing and dropping indexes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from moorage.core.errors import InvalidInput, SecurableNotFound
from moorage.datasets.fields import field_at, require_fields
from moorage.datasets.job_table import JobTable
from moorage.formats.lance.indexes import Index, IndexContent, IndexStats

if TYPE_CHECKING:
    from lance import LanceDataset

_FULL_TEXT_INDEXES: Final = frozenset({"FTS", "INVERTED"})
_SCALAR_INDEXES: Final = _FULL_TEXT_INDEXES | {"BTREE", "BITMAP", "LABEL_LIST", "NGRAM", "ZONEMAP", "BLOOMFILTER"}
_VECTOR_INDEXES: Final = frozenset(
    {"IVF_FLAT", "IVF_PQ", "IVF_SQ", "IVF_RQ", "IVF_HNSW_FLAT", "IVF_HNSW_PQ", "IVF_HNSW_SQ"}
)
_PQ_DIMENSIONS = 16


def create(desk: JobTable, index: Index, *, branch: str | None, scalar: bool) -> None:
    """Build an index. An existing index of that name is never replaced, because the client did not ask to drop it."""
    dataset = desk.open(branch)
    kind = index.index_type.upper()
    known = _SCALAR_INDEXES if scalar else _SCALAR_INDEXES | _VECTOR_INDEXES
    if kind not in known:
        raise InvalidInput(
            f"index_type: {kind!r} is unknown; use one of {', '.join(sorted(known))}", field="index_type"
        )
    require_fields(dataset, [index.column], "column")
    if kind in _VECTOR_INDEXES:
        dataset.create_index(index.column, kind, index.name, **_vector_options(dataset, index, kind))
    else:
        options = _present_options(index, _FULL_TEXT_OPTIONS) if kind in _FULL_TEXT_INDEXES else {}
        build: Any = dataset.create_scalar_index
        build(index.column, kind, index.name, replace=False, **options)


_FULL_TEXT_OPTIONS = (
    "with_position",
    "base_tokenizer",
    "language",
    "max_token_length",
    "lower_case",
    "stem",
    "remove_stop_words",
    "ascii_folding",
)
_VECTOR_OPTIONS = (
    "num_partitions",
    "num_sub_vectors",
    "num_bits",
    "sample_rate",
    "max_iterations",
    "target_partition_size",
    "m",
    "ef_construction",
)


def _present_options(index: Index, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: getattr(index, name) for name in names if getattr(index, name) is not None}


def _vector_options(dataset: LanceDataset, index: Index, kind: str) -> dict[str, Any]:
    options = _present_options(index, _VECTOR_OPTIONS)
    if index.distance_type is not None:
        options["metric"] = index.distance_type
    if kind.endswith("_PQ"):
        options.setdefault("num_sub_vectors", _sub_vectors(dataset, index.column))
    return options


def _sub_vectors(dataset: LanceDataset, column: str) -> int:
    """Choose the number as LanceDB does: sub-vectors of 16 dimensions, else of 8, else a single one."""
    size: int = getattr(field_at(dataset, column, "column").type, "list_size", 1)
    return next((size // width for width in (_PQ_DIMENSIONS, _PQ_DIMENSIONS // 2) if size % width == 0), 1)


def list_all(desk: JobTable, *, branch: str | None, version: int | None) -> list[IndexContent]:
    """Return all indexes, sorted by name."""
    dataset = desk.open(branch, version)
    rows = dataset.count_rows()
    found = [_to_wire(each, rows) for each in dataset.describe_indices()]
    return sorted(found, key=lambda each: each.index_name)


def _to_wire(index: Any, rows: int) -> IndexContent:
    segments = sorted(index.segments, key=lambda each: str(each.uuid))
    created = [each.created_at for each in segments if each.created_at is not None]
    return IndexContent(
        index_name=index.name,
        index_uuid=str(segments[0].uuid) if segments else "",
        columns=tuple(index.field_names),
        status="done",
        index_type=_wire_type(index.index_type),
        type_url=index.type_url,
        num_indexed_rows=index.num_rows_indexed,
        num_unindexed_rows=max(0, rows - index.num_rows_indexed),
        size_bytes=index.total_size_bytes,
        num_segments=len(segments),
        created_at=min(created).isoformat() if created else None,
        index_version=segments[0].index_version if segments else None,
        index_details=json.dumps(index.details, default=str),
    )


def _wire_type(name: str) -> str:
    """Return the type name that `create` accepts: pylance reports BTree and Inverted."""
    known = {kind.replace("_", ""): kind for kind in _SCALAR_INDEXES | _VECTOR_INDEXES} | {"INVERTED": "FTS"}
    return known.get(name.replace("_", "").upper(), name)


def stats(desk: JobTable, name: str, *, branch: str | None, version: int | None) -> IndexStats:
    """Return how many rows of the table an index covers."""
    dataset = desk.open(branch, version)
    _require_index(dataset, name)
    found = dataset.stats.index_stats(name)
    parts = found.get("indices") or [{}]
    return IndexStats(
        distance_type=parts[0].get("metric_type"),
        index_type=_wire_type(found["index_type"]),
        num_indexed_rows=found["num_indexed_rows"],
        num_unindexed_rows=found["num_unindexed_rows"],
        num_indices=found["num_indices"],
    )


def drop(desk: JobTable, name: str, *, branch: str | None) -> None:
    dataset = desk.open(branch)
    _require_index(dataset, name)
    dataset.drop_index(name)


def _require_index(dataset: LanceDataset, name: str) -> None:
    if name not in {each.name for each in dataset.describe_indices()}:
        raise SecurableNotFound(f"the table has no index '{name}'", field="index_name", kind="index")
