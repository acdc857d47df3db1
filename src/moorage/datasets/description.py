"""Facts about a table that only its files contain: schema, metadata, and the number of fragments."""

from __future__ import annotations

from moorage.datasets.job_table import JobTable
from moorage.formats.lance.statistics import TableContents


def table_contents(desk: JobTable, *, branch: str | None, version: int | None) -> TableContents:
    from lance import schema_to_json

    dataset = desk.open(branch, version)
    stats = dataset.stats.dataset_stats()
    return TableContents(
        schema=schema_to_json(dataset.schema),
        metadata=dict(dataset.metadata),
        num_deleted_rows=stats["num_deleted_rows"],
        num_fragments=stats["num_fragments"],
    )
