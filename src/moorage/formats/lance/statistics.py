"""Statistics of tables, in the words of the Lance Namespace specification."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class FragmentSummary(msgspec.Struct, frozen=True, kw_only=True):
    """How many rows fragments have."""

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
    num_small_fragments: Annotated[int, Meta(ge=0, le=2**63 - 1, description="Those that compaction would join.")]
    lengths: FragmentSummary


class TableStats(msgspec.Struct, frozen=True, kw_only=True):
    """How large a table is."""

    total_bytes: Count
    num_rows: Count
    num_indices: Count
    fragment_stats: FragmentStats


class TableContents(msgspec.Struct, frozen=True, kw_only=True):
    """What a table is made of; the schema is that of Arrow, in its JSON form."""

    schema: dict[str, Any]
    metadata: dict[str, str]
    num_deleted_rows: Count
    num_fragments: Count
