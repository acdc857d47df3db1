"""Full-text queries: from the words of the specification to those of pylance."""

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


def full_text_of(dataset: LanceDataset, asked: QueryTableRequestFullTextQuery) -> Any:
    """The query as pylance's scanner takes it."""
    match asked:
        case QueryTableRequestFullTextQuery(string_query=StringFtsQuery() as text, structured_query=None):
            require_fields(dataset, text.columns or (), f"{_FIELD}.string_query.columns")
            return {"query": text.query, "columns": list(text.columns) if text.columns else None}
        case QueryTableRequestFullTextQuery(string_query=None, structured_query=structured) if structured is not None:
            return _Translation(dataset).of(structured.query)
        case _:
            raise InvalidInput(f"{_FIELD}: give string_query or structured_query", field=_FIELD)


class _Translation:
    """A tree of queries for one table, which knows the columns that have a full-text index."""

    def __init__(self, dataset: LanceDataset) -> None:
        self._dataset = dataset

    def of(self, asked: FtsQuery) -> FullTextQuery:
        given = [each for each in (asked.match, asked.phrase, asked.boost, asked.multi_match, asked.boolean) if each]
        if len(given) != 1:
            raise InvalidInput(f"{_FIELD}: a query has exactly one kind, this one {len(given)}", field=_FIELD)
        match given[0]:
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

    def _match(self, asked: MatchQuery) -> FullTextQuery:
        from lance.query import FullTextOperator
        from lance.query import MatchQuery as Match

        options = {
            "boost": asked.boost,
            "fuzziness": asked.fuzziness,
            "max_expansions": asked.max_expansions,
            "prefix_length": asked.prefix_length,
            "operator": None if asked.operator is None else FullTextOperator(_operator(asked.operator)),
        }
        return Match(asked.terms, self._column(asked.column), **_present(options))

    def _phrase(self, asked: PhraseQuery) -> FullTextQuery:
        from lance.query import PhraseQuery as Phrase

        return Phrase(asked.terms, self._column(asked.column), slop=asked.slop or 0)

    def _boost(self, asked: BoostQuery) -> FullTextQuery:
        from lance.query import BoostQuery as Boost

        options = _present({"negative_boost": asked.negative_boost})
        return Boost(self.of(asked.positive), self.of(asked.negative), **options)

    def _any_of(self, several: list[FtsQuery]) -> FullTextQuery:
        from lance.query import BooleanQuery as Boolean
        from lance.query import Occur

        return Boolean([(Occur.SHOULD, self.of(each)) for each in several])

    def _boolean(self, asked: BooleanQuery) -> FullTextQuery:
        from lance.query import BooleanQuery as Boolean
        from lance.query import Occur

        parts = ((Occur.MUST, asked.must), (Occur.MUST_NOT, asked.must_not), (Occur.SHOULD, asked.should))
        queries = [(occur, self.of(each)) for occur, several in parts for each in several]
        if not queries:
            raise InvalidInput(f"{_FIELD}: a boolean query has at least one part", field=_FIELD)
        return Boolean(queries)

    def _column(self, named: str | None) -> str:
        if named is not None:
            require_fields(self._dataset, [named], _FIELD)
            return named
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
        raise InvalidInput(f"{_FIELD}: the operator {text!r} is neither And nor Or", field=_FIELD)
    return text.upper()
