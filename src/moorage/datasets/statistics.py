"""Table statistics: the size of a table, and of its fragments."""

from __future__ import annotations

from statistics import mean, quantiles
from typing import Any

from moorage.datasets.job_table import JobTable
from moorage.formats.lance.statistics import FragmentStats, FragmentSummary, TableStats

_SMALL_FRAGMENT_ROWS = 100_000
"""LanceDB's limit: a fragment with fewer rows should be compacted."""


def table_stats(desk: JobTable, *, branch: str | None) -> TableStats:
    dataset = desk.open(branch)
    fields: Any = dataset.stats.data_stats().fields
    lengths = sorted(fragment.count_rows() for fragment in dataset.get_fragments())
    return TableStats(
        total_bytes=sum(field.bytes_on_disk for field in fields),
        num_rows=sum(lengths),
        num_indices=len(dataset.describe_indices()),
        fragment_stats=FragmentStats(
            num_fragments=len(lengths),
            num_small_fragments=sum(length < _SMALL_FRAGMENT_ROWS for length in lengths),
            lengths=_summary(lengths),
        ),
    )


def _summary(lengths: list[int]) -> FragmentSummary:
    if not lengths:
        return FragmentSummary(min=0, max=0, mean=0, p25=0, p50=0, p75=0, p99=0)
    cuts = quantiles(lengths, n=100, method="inclusive") if len(lengths) > 1 else lengths * 99
    return FragmentSummary(
        min=lengths[0],
        max=lengths[-1],
        mean=int(mean(lengths)),
        p25=int(cuts[24]),
        p50=int(cuts[49]),
        p75=int(cuts[74]),
        p99=int(cuts[98]),
    )
