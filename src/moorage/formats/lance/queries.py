"""Queries, as the Lance Namespace specification defines them.

Every number is bounded. Lance reserves memory according to these numbers and multiplies some of them. Without
bounds, a query for 10¹² neighbours would request terabytes.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

Effort = Annotated[int, Meta(ge=1, le=100_000)]
Path = Annotated[str, Meta(min_length=1, description="A field; nested fields as `a.b`, special names in backticks.")]


class MatchQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Rows that contain the terms."""

    terms: str
    column: Path | None = None
    boost: float | None = None
    fuzziness: Annotated[int, Meta(ge=0, le=2)] | None = None
    max_expansions: Annotated[int, Meta(ge=0, le=10_000)] | None = None
    operator: Annotated[str, Meta(description="Or: one term is enough. And: all terms must match.")] | None = None
    prefix_length: Annotated[int, Meta(ge=0, le=1_000)] | None = None


class PhraseQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Rows that contain the terms as a phrase. `slop` is the number of positions that may be between the terms."""

    terms: str
    column: Path | None = None
    slop: Annotated[int, Meta(ge=0, le=10_000)] | None = None


class BoostQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Rows that match `positive`. Rows that also match `negative` get a lower score."""

    positive: FtsQuery
    negative: FtsQuery
    negative_boost: float | None = 0.5


class MultiMatchQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The best score of several match queries."""

    match_queries: Annotated[tuple[MatchQuery, ...], Meta(min_length=1, max_length=100)]


class BooleanQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Rows that match all of `must` and none of `must_not`. Matches of `should` add to the score."""

    must: Annotated[tuple[FtsQuery, ...], Meta(max_length=100)] | None = ()
    must_not: Annotated[tuple[FtsQuery, ...], Meta(max_length=100)] | None = ()
    should: Annotated[tuple[FtsQuery, ...], Meta(max_length=100)] | None = ()


class FtsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Exactly one kind of full-text query."""

    match: MatchQuery | None = None
    phrase: PhraseQuery | None = None
    boost: BoostQuery | None = None
    multi_match: MultiMatchQuery | None = None
    boolean: BooleanQuery | None = None


class StringFtsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A search for terms in some columns, or in all columns with a full-text index."""

    query: str
    columns: tuple[Path, ...] | None = None


class StructuredFtsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A full-text query that is composed of other queries."""

    query: FtsQuery


class QueryTableRequestFullTextQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Exactly one of the two kinds of full-text query."""

    string_query: StringFtsQuery | None = None
    structured_query: StructuredFtsQuery | None = None


class QueryTableRequestVector(msgspec.Struct, frozen=True, kw_only=True):
    """One vector or several vectors. An empty vector means that there is no vector search."""

    single_vector: Annotated[tuple[float, ...], Meta(max_length=65_536)] | None = None
    multi_vector: (
        Annotated[tuple[Annotated[tuple[float, ...], Meta(max_length=65_536)], ...], Meta(max_length=1_000)] | None
    ) = None


class QueryTableRequestColumns(msgspec.Struct, frozen=True, kw_only=True):
    """The columns to return, by name or under aliases."""

    column_names: tuple[Path, ...] | None = None
    column_aliases: dict[str, Path] | None = None


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """A query of a table."""

    k: Annotated[
        int, Meta(ge=0, le=2**63 - 1, description="The maximum number of rows, per vector if there are several.")
    ]
    vector: QueryTableRequestVector = QueryTableRequestVector()
    vector_column: Path | None = None
    full_text_query: QueryTableRequestFullTextQuery | None = None
    filter: Annotated[str, Meta(description="An SQL expression.", max_length=100_000)] | None = None
    prefilter: Annotated[bool, Meta(description="Filter before the search, not its results.")] | None = None
    columns: QueryTableRequestColumns | None = None
    offset: Annotated[int, Meta(ge=0, le=2**63 - 1)] | None = None
    with_row_id: bool | None = None
    distance_type: Annotated[str, Meta(description="l2, cosine, dot or hamming.")] | None = None
    lower_bound: float | None = None
    upper_bound: float | None = None
    bypass_vector_index: bool | None = None
    fast_search: bool | None = None
    nprobes: Annotated[int, Meta(ge=0, le=100_000)] | None = None
    minimum_nprobes: Effort | None = None
    maximum_nprobes: Effort | None = None
    ef: Annotated[int, Meta(ge=0, le=100_000)] | None = None
    refine_factor: Annotated[int, Meta(ge=0, le=1_000)] | None = None
