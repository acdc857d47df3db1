"""Conversion of full-text queries from the Lance namespace specification to pylance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moorage.core.errors import InvalidInput
from moorage.datasets.fields import require_fields
from moorage.formats.lance.queries import (
    BooleanQuery,
    BoostQuery,
    FtsQuery,
    MatchQuery,
    MultiMatchQuery,
    PhraseQuery,
    QueryTableRequestFullTextQuery,
    StringFtsQuery,
)

if TYPE_CHECKING:
    from lance import LanceDataset
    from lance.query import FullTextQuery

_FIELD = "full_text_query"


def full_text_of(dataset: LanceDataset, query: QueryTableRequestFullTextQuery) -> Any:
    """Return the query in the form that pylance's scanner accepts."""
    match query:
        case QueryTableRequestFullTextQuery(string_query=StringFtsQuery() as text, structured_query=None):
            require_fields(dataset, text.columns or (), f"{_FIELD}.string_query.columns")
            return {"query": text.query, "columns": list(text.columns) if text.columns else None}
        case QueryTableRequestFullTextQuery(string_query=None, structured_query=structured) if structured is not None:
            return _Translation(dataset).of(structured.query)
        case _:
            raise InvalidInput(f"{_FIELD}: set either string_query or structured_query", field=_FIELD)


class _Translation:
    """Converts a tree of queries for one table, which supplies the default column: the one with a full-text index."""

    def __init__(self, dataset: LanceDataset) -> None:
        self._dataset = dataset

    def of(self, query: FtsQuery) -> FullTextQuery:
        kinds = [each for each in (query.match, query.phrase, query.boost, query.multi_match, query.boolean) if each]
        if len(kinds) != 1:
            raise InvalidInput(
                f"{_FIELD}: a query has {len(kinds)} of match, phrase, boost, multi_match and boolean; set exactly one",
                field=_FIELD,
            )
        match kinds[0]:
            case MatchQuery() as match:
                return self._match(match)
            case PhraseQuery() as phrase:
                return self._phrase(phrase)
            case BoostQuery() as boost:
                return self._boost(boost)
            case MultiMatchQuery(match_queries=several):
                return self._any_of([FtsQuery(match=each) for each in several])
            case BooleanQuery() as boolean:
                return self._boolean(boolean)

    def _match(self, query: MatchQuery) -> FullTextQuery:
        from lance.query import FullTextOperator
        from lance.query import MatchQuery as Match

        options = {
            "boost": query.boost,
            "fuzziness": query.fuzziness,
            "max_expansions": query.max_expansions,
            "prefix_length": query.prefix_length,
            "operator": None if query.operator is None else FullTextOperator(_operator(query.operator)),
        }
        return Match(query.terms, self._column(query.column), **_present(options))

    def _phrase(self, query: PhraseQuery) -> FullTextQuery:
        from lance.query import PhraseQuery as Phrase

        return Phrase(query.terms, self._column(query.column), slop=query.slop or 0)

    def _boost(self, query: BoostQuery) -> FullTextQuery:
        from lance.query import BoostQuery as Boost

        options = _present({"negative_boost": query.negative_boost})
        return Boost(self.of(query.positive), self.of(query.negative), **options)

    def _any_of(self, several: list[FtsQuery]) -> FullTextQuery:
        from lance.query import BooleanQuery as Boolean
        from lance.query import Occur

        return Boolean([(Occur.SHOULD, self.of(each)) for each in several])

    def _boolean(self, query: BooleanQuery) -> FullTextQuery:
        from lance.query import BooleanQuery as Boolean
        from lance.query import Occur

        parts = ((Occur.MUST, query.must), (Occur.MUST_NOT, query.must_not), (Occur.SHOULD, query.should))
        queries = [(occur, self.of(each)) for occur, several in parts for each in several or ()]
        if not queries:
            raise InvalidInput(
                f"{_FIELD}: a boolean query is empty; add a part to must, must_not or should", field=_FIELD
            )
        return Boolean(queries)

    def _column(self, name: str | None) -> str:
        if name is not None:
            require_fields(self._dataset, [name], _FIELD)
            return name
        indexed = sorted(
            {each.field_names[0] for each in self._dataset.describe_indices() if each.index_type == "Inverted"}
        )
        if len(indexed) != 1:
            raise InvalidInput(
                f"{_FIELD}: {len(indexed)} columns have a full-text index; name the one to search", field=_FIELD
            )
        return str(indexed[0])


def _present(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _operator(text: str) -> str:
    if text.upper() not in ("AND", "OR"):
        raise InvalidInput(f"{_FIELD}: the operator {text!r} is unknown; use And or Or", field=_FIELD)
    return text.upper()
