"""Statistics of tables, as the Lance Namespace specification defines them."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class FragmentSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The distribution of row counts over fragments."""

    min: Count
    max: Count
    mean: Count
    p25: Count
    p50: Count
    p75: Count
    p99: Count


class FragmentStats(msgspec.Struct, frozen=True, kw_only=True):
    """The fragments of a table."""

    num_fragments: Count
    num_small_fragments: Annotated[int, Meta(ge=0, le=2**63 - 1, description="Fragments that compaction would merge.")]
    lengths: FragmentSummary


class TableStats(msgspec.Struct, frozen=True, kw_only=True):
    """The size of a table."""

    total_bytes: Count
    num_rows: Count
    num_indices: Count
    fragment_stats: FragmentStats


class TableContents(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of a table. The schema is an Arrow schema in its JSON form."""

    schema: dict[str, Any]
    metadata: dict[str, str]
    num_deleted_rows: Count
    num_fragments: Count


class FragmentFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The fragments of one version in figures."""

    version: int
    rows: tuple[int, ...]
    """The rows of each fragment, without deleted ones."""
    deleted_rows: int
    deletion_files: int
    bytes: int
    unindexed_rows: int
    """The rows that the least complete index does not cover; 0 without an index."""
