"""Indexes, as the Lance Namespace specification defines them. Every number is bounded, because it determines memory."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

Small = Annotated[int, Meta(ge=1, le=1_000)]
Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class Index(msgspec.Struct, frozen=True, kw_only=True):
    """An index to build."""

    column: Annotated[str, Meta(min_length=1)]
    index_type: Annotated[str, Meta(description="For example BTREE, BITMAP, LABEL_LIST, FTS, IVF_PQ or IVF_HNSW_SQ.")]
    name: Annotated[str, Meta(min_length=1, max_length=255)] | None = None
    distance_type: Annotated[str, Meta(description="l2, cosine, dot or hamming.")] | None = None
    num_partitions: Annotated[int, Meta(ge=1, le=65_536)] | None = None
    num_sub_vectors: Annotated[int, Meta(ge=1, le=4_096)] | None = None
    num_bits: Annotated[int, Meta(ge=1, le=16)] | None = None
    sample_rate: Annotated[int, Meta(ge=1, le=65_536)] | None = None
    max_iterations: Small | None = None
    target_partition_size: Annotated[int, Meta(ge=1, le=10_000_000)] | None = None
    m: Small | None = None
    ef_construction: Annotated[int, Meta(ge=1, le=10_000)] | None = None
    with_position: bool | None = None
    base_tokenizer: str | None = None
    language: str | None = None
    max_token_length: Annotated[int, Meta(ge=0, le=65_536)] | None = None
    lower_case: bool | None = None
    stem: bool | None = None
    remove_stop_words: bool | None = None
    ascii_folding: bool | None = None


class IndexContent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An index of a table."""

    index_name: str
    index_uuid: str
    columns: tuple[str, ...]
    status: str
    index_type: str | None = None
    type_url: str | None = None
    num_indexed_rows: Count | None = None
    num_unindexed_rows: Count | None = None
    size_bytes: Count | None = None
    num_segments: Count | None = None
    created_at: str | None = None
    index_version: Count | None = None
    index_details: Annotated[str, Meta(description="Details specific to this type of index, as JSON.")] | None = None


class IndexStats(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How much of a table an index covers."""

    distance_type: str | None = None
    index_type: str | None = None
    num_indexed_rows: Count | None = None
    num_unindexed_rows: Count | None = None
    num_indices: Count | None = None
