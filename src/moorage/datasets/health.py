"""The fragments of a table in figures, for its health."""

from __future__ import annotations

from typing import Any

from moorage.datasets.job_table import JobTable
from moorage.formats.lance.statistics import FragmentFacts


def fragment_facts(desk: JobTable) -> FragmentFacts:
    """Read the figures of the newest version of the main line. Only the manifest is read, not the data."""
    dataset = desk.open()
    found: list[Any] = [fragment.metadata for fragment in dataset.get_fragments()]
    rows = [each.num_rows for each in found]
    indexed = [index.num_rows_indexed for index in dataset.describe_indices()]
    return FragmentFacts(
        version=dataset.version,
        rows=tuple(rows),
        deleted_rows=sum(each.num_deletions or 0 for each in found),
        deletion_files=sum(each.deletion_file is not None for each in found),
        bytes=sum(file.file_size_bytes or 0 for each in found for file in each.files),
        unindexed_rows=max([sum(rows) - each for each in indexed], default=0),
    )
