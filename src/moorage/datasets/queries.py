"""Queries: by vector, full text or filter; and their query plans."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, BinaryIO

from moorage.core.errors import InvalidInput
from moorage.datasets.fields import QUERY_COLUMNS, require_fields
from moorage.datasets.full_text import full_text_of
from moorage.datasets.job_table import JobTable
from moorage.formats.lance.queries import Query, QueryTableRequestColumns

if TYPE_CHECKING:
    from lance import LanceDataset
    from lance.dataset import LanceScanner

_MOST_BYTES_IN_MEMORY = 1024 * 1024
_MOST_BYTES = 4 * 1024**3
_BATCH_BYTES = 8 * 1024 * 1024
_READ_AHEAD_BYTES = 256 * 1024 * 1024


def query(desk: JobTable, request: Query, spill: str, *, branch: str | None, version: int | None) -> bytes | None:
    """Return the rows as an Arrow IPC file if it is small. Otherwise write it to `spill` and return None."""
    import pyarrow as pa

    scanner = _scanner(desk.open(branch, version), request)
    with _SpilledFile(spill) as answer:
        reader = scanner.to_reader()
        with pa.ipc.new_file(answer, reader.schema) as file:
            for batch in reader:
                file.write_batch(batch)
    return answer.whole


def explain(desk: JobTable, request: Query, *, branch: str | None, version: int | None, verbose: bool) -> str:
    """Return the query plan."""
    plan: str = _scanner(desk.open(branch, version), request).explain_plan(verbose)
    return plan


def analyze(desk: JobTable, request: Query, *, branch: str | None, version: int | None) -> str:
    """Run the query, and return its plan with the cost of each step."""
    plan: str = _scanner(desk.open(branch, version), request).analyze_plan()
    return plan


class _SpilledFile:
    """A file that is kept in memory while it is small, and written to disk when it grows."""

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
        if self._size > _MOST_BYTES:
            raise InvalidInput("the result is larger than 4 GB; request fewer rows or columns", field="k")
        if self._file is None and self._size > _MOST_BYTES_IN_MEMORY:
            self._file = open(self._path, "wb")  # noqa: SIM115 - closed by __exit__
            self._file.write(b"".join(self._parts))
        if self._file is None:
            self._parts.append(part)
        else:
            self._file.write(part)
        return len(part)

    def flush(self) -> None:
        pass

    def __enter__(self) -> _SpilledFile:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()


def _scanner(dataset: LanceDataset, request: Query) -> LanceScanner:
    vectors = _vectors(request)
    options: dict[str, Any] = {
        "columns": _columns(dataset, request.columns),
        "filter": request.filter,
        "prefilter": request.prefilter,
        "with_row_id": request.with_row_id,
        "fast_search": request.fast_search,
        "batch_size_bytes": _BATCH_BYTES,
        "io_buffer_size": _READ_AHEAD_BYTES,
    }
    if request.full_text_query is not None:
        options["full_text_query"] = full_text_of(dataset, request.full_text_query)
    # Lance allocates memory for the requested number of results, so it is limited to the number of rows.
    rows = max(1, dataset.count_rows())
    limit, offset = min(request.k, rows), min(request.offset or 0, rows)
    if vectors:
        options["nearest"] = _nearest(dataset, request, vectors, min(limit + offset, rows))
    if len(vectors) <= 1:
        options |= {"limit": limit, "offset": offset}
    elif offset:
        raise InvalidInput("offset: not supported with several vectors; query them one by one", field="offset")
    return dataset.scanner(**{name: value for name, value in options.items() if value is not None})


def _vectors(request: Query) -> Sequence[Sequence[float]]:
    single, many = request.vector.single_vector, request.vector.multi_vector
    if single and many:
        raise InvalidInput("vector: set single_vector or multi_vector, not both", field="vector")
    if single:
        return [single]
    return many if many and any(many) else ()


def _nearest(dataset: LanceDataset, request: Query, vectors: Sequence[Sequence[float]], k: int) -> dict[str, Any]:
    if k == 0:
        raise InvalidInput("k: must be at least 1 for a vector search", field="k")
    column = request.vector_column or _vector_column(dataset)
    require_fields(dataset, [column], "vector_column")
    options: dict[str, Any] = {
        "column": column,
        "q": list(vectors[0]) if len(vectors) == 1 else [list(each) for each in vectors],
        "k": k,
        "metric": request.distance_type,
        "minimum_nprobes": request.minimum_nprobes,
        "maximum_nprobes": request.maximum_nprobes,
        "refine_factor": request.refine_factor or None,
        "ef": request.ef or None,
        "use_index": not request.bypass_vector_index,
    }
    if request.minimum_nprobes is None and request.maximum_nprobes is None:
        options["nprobes"] = request.nprobes or None
    if request.lower_bound is not None or request.upper_bound is not None:
        options["distance_range"] = (request.lower_bound, request.upper_bound)
    return {name: value for name, value in options.items() if value is not None}


def _vector_column(dataset: LanceDataset) -> str:
    """Return the only vector column. If there are several or none, the request must name one."""
    import pyarrow as pa

    found: list[str] = [field.name for field in dataset.schema if pa.types.is_fixed_size_list(field.type)]
    if len(found) != 1:
        raise InvalidInput(f"vector_column: the table has {len(found)} vector columns; name one", field="vector_column")
    return found[0]


def _columns(dataset: LanceDataset, request: QueryTableRequestColumns | None) -> list[str] | dict[str, str] | None:
    if request is None or (request.column_names is None and request.column_aliases is None):
        return None
    if request.column_names is not None and request.column_aliases is not None:
        raise InvalidInput("columns: set column_names or column_aliases, not both", field="columns")
    paths = request.column_names if request.column_names is not None else tuple((request.column_aliases or {}).values())
    require_fields(dataset, [path for path in paths if path not in QUERY_COLUMNS], "columns")
    return list(paths) if request.column_names is not None else dict(request.column_aliases or {})
