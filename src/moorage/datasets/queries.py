"""Queries: rows by vector, by words, by a filter, and how Lance would find them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, BinaryIO

from moorage.core.errors import InvalidInput
from moorage.datasets.desk import Desk
from moorage.datasets.fields import MADE_BY_QUERIES, require_fields
from moorage.datasets.words import full_text_of
from moorage.formats.lance.queries import Query, QueryTableRequestColumns

if TYPE_CHECKING:
    from lance import LanceDataset
    from lance.dataset import LanceScanner

_SMALL_BYTES = 1024 * 1024
_LARGEST_BYTES = 4 * 1024**3
_BATCH_BYTES = 8 * 1024 * 1024
_READ_AHEAD_BYTES = 256 * 1024 * 1024


def query(desk: Desk, asked: Query, spill: str, *, branch: str | None, version: int | None) -> bytes | None:
    """The rows as an Arrow IPC file: itself if it is small, else written to `spill`, and None."""
    import pyarrow as pa

    scanner = _scanner(desk.open(branch, version), asked)
    with _Answer(spill) as answer:
        reader = scanner.to_reader()
        with pa.ipc.new_file(answer, reader.schema) as file:
            for batch in reader:
                file.write_batch(batch)
    return answer.whole


def explain(desk: Desk, asked: Query, *, branch: str | None, version: int | None, verbose: bool) -> str:
    """How the query would be run."""
    plan: str = _scanner(desk.open(branch, version), asked).explain_plan(verbose)
    return plan


def analyze(desk: Desk, asked: Query, *, branch: str | None, version: int | None) -> str:
    """How the query was run, and what each step cost."""
    plan: str = _scanner(desk.open(branch, version), asked).analyze_plan()
    return plan


class _Answer:
    """A file that stays in memory while it is small."""

    closed = False

    def __init__(self, spill: str) -> None:
        self._path = spill
        self._parts: list[bytes] = []
        self._size = 0
        self._file: BinaryIO | None = None

    @property
    def whole(self) -> bytes | None:
        return None if self._file is not None else b"".join(self._parts)

    def write(self, data: Any) -> int:
        part = bytes(data)
        self._size += len(part)
        if self._size > _LARGEST_BYTES:
            raise InvalidInput("the answer would be larger than 4 GB; ask for fewer rows or columns", field="k")
        if self._file is None and self._size > _SMALL_BYTES:
            self._file = open(self._path, "wb")  # noqa: SIM115 - closed with the answer
            self._file.write(b"".join(self._parts))
        if self._file is None:
            self._parts.append(part)
        else:
            self._file.write(part)
        return len(part)

    def flush(self) -> None:
        pass

    def __enter__(self) -> _Answer:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()


def _scanner(dataset: LanceDataset, asked: Query) -> LanceScanner:
    vectors = _vectors(asked)
    options: dict[str, Any] = {
        "columns": _columns(dataset, asked.columns),
        "filter": asked.filter,
        "prefilter": asked.prefilter,
        "with_row_id": asked.with_row_id,
        "fast_search": asked.fast_search,
        "batch_size_bytes": _BATCH_BYTES,
        "io_buffer_size": _READ_AHEAD_BYTES,
    }
    if asked.full_text_query is not None:
        options["full_text_query"] = full_text_of(dataset, asked.full_text_query)
    # Lance reserves room for as many results as it is asked for; there are never more than rows.
    rows = max(1, dataset.count_rows())
    limit, offset = min(asked.k, rows), min(asked.offset or 0, rows)
    if vectors:
        options["nearest"] = _nearest(dataset, asked, vectors, min(limit + offset, rows))
    if len(vectors) <= 1:
        options |= {"limit": limit, "offset": offset}
    elif offset:
        raise InvalidInput("an offset makes no sense for several vectors at once", field="offset")
    return dataset.scanner(**{name: value for name, value in options.items() if value is not None})


def _vectors(asked: Query) -> Sequence[Sequence[float]]:
    single, many = asked.vector.single_vector, asked.vector.multi_vector
    if single and many:
        raise InvalidInput("vector: give single_vector or multi_vector, not both", field="vector")
    if single:
        return [single]
    return many if many and any(many) else ()


def _nearest(dataset: LanceDataset, asked: Query, vectors: Sequence[Sequence[float]], k: int) -> dict[str, Any]:
    if k == 0:
        raise InvalidInput("k: a vector search looks for at least one row", field="k")
    column = asked.vector_column or _vector_column(dataset)
    require_fields(dataset, [column], "vector_column")
    options: dict[str, Any] = {
        "column": column,
        "q": list(vectors[0]) if len(vectors) == 1 else [list(each) for each in vectors],
        "k": k,
        "metric": asked.distance_type,
        "minimum_nprobes": asked.minimum_nprobes,
        "maximum_nprobes": asked.maximum_nprobes,
        "refine_factor": asked.refine_factor or None,
        "ef": asked.ef or None,
        "use_index": not asked.bypass_vector_index,
    }
    if asked.minimum_nprobes is None and asked.maximum_nprobes is None:
        options["nprobes"] = asked.nprobes or None
    if asked.lower_bound is not None or asked.upper_bound is not None:
        options["distance_range"] = (asked.lower_bound, asked.upper_bound)
    return {name: value for name, value in options.items() if value is not None}


def _vector_column(dataset: LanceDataset) -> str:
    """The only column of vectors; with several, or none, the request must name one."""
    import pyarrow as pa

    found: list[str] = [field.name for field in dataset.schema if pa.types.is_fixed_size_list(field.type)]
    if len(found) != 1:
        raise InvalidInput(f"vector_column: the table has {len(found)} vector columns; name one", field="vector_column")
    return found[0]


def _columns(dataset: LanceDataset, asked: QueryTableRequestColumns | None) -> list[str] | dict[str, str] | None:
    if asked is None or (asked.column_names is None and asked.column_aliases is None):
        return None
    if asked.column_names is not None and asked.column_aliases is not None:
        raise InvalidInput("columns: give column_names or column_aliases, not both", field="columns")
    paths = asked.column_names if asked.column_names is not None else tuple((asked.column_aliases or {}).values())
    require_fields(dataset, [path for path in paths if path not in MADE_BY_QUERIES], "columns")
    return list(paths) if asked.column_names is not None else dict(asked.column_aliases or {})
