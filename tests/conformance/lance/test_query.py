"""Queries through Lance's generated client: by vector, full text and filter."""

from __future__ import annotations

from typing import Any

import httpx
import pyarrow as pa
import pytest
from lance_namespace_urllib3_client.models import (
    AnalyzeTableQueryPlanRequest,
    CreateTableIndexRequest,
    ExplainTableQueryPlanRequest,
    QueryTableRequest,
)

from tests.conformance.lance.lake import Lake, arrow, refused, rows, stream

NO_VECTOR: dict[str, Any] = {"single_vector": []}
NEAR_THREE = {"single_vector": [3.0, 1.0, 3.0, 0.5]}


@pytest.fixture(scope="module")
def boats(lake: Lake) -> str:
    """A table with a full-text index."""
    id = lake.table(20)
    lake.indexes.create_table_index(id, CreateTableIndexRequest(column="text", index_type="FTS", with_position=True))
    return id


def run_query(lake: Lake, id: str, **body: Any) -> pa.Table:
    return arrow(lake.data.query_table(id, QueryTableRequest.model_validate({"k": 3, "vector": NO_VECTOR, **body})))


def test_the_nearest_rows_are_returned_first(lake: Lake, boats: str) -> None:
    found = run_query(lake, boats, vector=NEAR_THREE, with_row_id=True)
    assert found["id"].to_pylist()[0] == 3
    assert found["_distance"].to_pylist() == sorted(found["_distance"].to_pylist())
    assert found["_distance"].to_pylist()[0] == 0.0
    assert "_rowid" in found.column_names
    assert (
        run_query(lake, boats, vector=NEAR_THREE, offset=1)["id"].to_pylist()
        == run_query(lake, boats, vector=NEAR_THREE, k=4)["id"].to_pylist()[1:]
    )


def test_several_vectors_are_searched_separately(lake: Lake, boats: str) -> None:
    both = {"multi_vector": [[3.0, 1.0, 3.0, 0.5], [9.0, 1.0, 2.0, 0.5]]}
    found = run_query(lake, boats, vector=both, k=2)
    assert found["query_index"].to_pylist() == [0, 0, 1, 1]
    assert found["id"].to_pylist()[::2] == [3, 9]
    with refused(400, 13):
        run_query(lake, boats, vector=both, offset=1)


def test_a_search_supports_a_filter_a_metric_and_bounds(lake: Lake, boats: str) -> None:
    assert 3 not in run_query(lake, boats, vector=NEAR_THREE, filter="id > 3", prefilter=True)["id"].to_pylist()
    assert run_query(lake, boats, vector=NEAR_THREE, distance_type="cosine")["_distance"].to_pylist()[0] < 0.001
    assert run_query(lake, boats, vector=NEAR_THREE, upper_bound=0.5)["id"].to_pylist() == [3]
    assert run_query(lake, boats, vector=NEAR_THREE, vector_column="vector", bypass_vector_index=True).num_rows == 3


def test_rows_are_found_without_a_vector(lake: Lake, boats: str) -> None:
    found = run_query(lake, boats, k=100, filter="id < 5", columns={"column_names": ["id", "text"]})
    assert found.column_names == ["id", "text"]
    assert found["id"].to_pylist() == [0, 1, 2, 3, 4]
    assert run_query(lake, boats, columns={"column_aliases": {"number": "id"}}, offset=2)["number"].to_pylist() == [
        2,
        3,
        4,
    ]
    assert run_query(lake, boats, k=2**63 - 1).num_rows == 20
    assert run_query(lake, boats, k=0).num_rows == 0


def test_full_text_queries_find_rows(lake: Lake, boats: str) -> None:
    def words(**query: Any) -> set[str]:
        return set(run_query(lake, boats, k=20, full_text_query=query)["text"].to_pylist())

    def structured(**query: Any) -> set[str]:
        return words(structured_query={"query": query})

    boats_of = {"a red boat", "a blue boat"}
    assert words(string_query={"query": "boat"}) == boats_of
    assert words(string_query={"query": "boat", "columns": ["text"]}) == boats_of
    assert structured(match={"terms": "red lighthouse", "operator": "Or"}) == {"a red boat", "the old lighthouse"}
    assert structured(match={"terms": "red boat", "operator": "and", "column": "text"}) == {"a red boat"}
    assert structured(match={"terms": "harbuor", "fuzziness": 2}) == {"a green harbour"}
    assert structured(phrase={"terms": "old lighthouse"}) == {"the old lighthouse"}
    assert structured(multi_match={"match_queries": [{"terms": "red"}, {"terms": "green"}]}) == {
        "a red boat",
        "a green harbour",
    }
    either = {"positive": {"match": {"terms": "boat"}}, "negative": {"match": {"terms": "red"}}, "negative_boost": 0.1}
    assert structured(boost=either) == boats_of
    red_not_blue = {
        "must": [{"match": {"terms": "boat"}}],
        "must_not": [{"match": {"terms": "blue"}}],
        "should": [],
    }
    assert structured(boolean=red_not_blue) == {"a red boat"}


def test_null_parts_of_a_query_are_treated_as_absent(lake: Lake, boats: str) -> None:
    must = {"must": [{"match": {"terms": "red"}}], "must_not": None, "should": None}
    words = {"structured_query": {"query": {"boolean": must}}, "string_query": None}
    asked = {
        "k": 3,
        "vector": {"single_vector": None},
        "full_text_query": words,
        "columns": {"column_names": ["text"]},
        "filter": None,
    }
    answer = httpx.post(f"{lake.url}/lance/v1/table/{boats}/query", json=asked, trust_env=False, timeout=60)
    assert answer.status_code == 200, answer.text
    assert set(arrow(answer.content)["text"].to_pylist()) == {"a red boat"}


def test_an_earlier_version_is_queried(lake: Lake) -> None:
    id = lake.table(2)
    lake.data.insert_into_table(id, stream(rows(2, 2)))
    assert (run_query(lake, id, k=9).num_rows, run_query(lake, id, k=9, version=1).num_rows) == (4, 2)
    with refused(404, 11):
        run_query(lake, id, version=9)


def test_a_large_answer_is_returned_completely(lake: Lake) -> None:
    id = lake.table(100_000)
    found = run_query(lake, id, k=100_000)
    assert found.num_rows == 100_000
    assert sum(found["id"].to_pylist()) == sum(range(100_000))


def test_plans_are_explained_and_analyzed(lake: Lake, boats: str) -> None:
    query = QueryTableRequest.model_validate({"k": 3, "vector": NEAR_THREE, "filter": "id > 1"})
    plan = lake.data.explain_table_query_plan(boats, ExplainTableQueryPlanRequest(query=query, verbose=True))
    assert "KNN" in plan
    plan = lake.data.analyze_table_query_plan(
        boats, AnalyzeTableQueryPlanRequest.model_validate({"k": 3, "vector": NEAR_THREE})
    )
    assert "metrics" in plan


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"vector": {"single_vector": [1.0]}}, 400, 13),
        ({"vector": NEAR_THREE, "vector_column": "nope"}, 404, 12),
        ({"vector": NEAR_THREE, "vector_column": "text"}, 400, 13),
        ({"vector": NEAR_THREE, "distance_type": "miles"}, 400, 13),
        ({"vector": {"single_vector": [1.0], "multi_vector": [[1.0]]}}, 400, 13),
        ({"filter": "nope = 1"}, 404, 12),
        ({"filter": "id ="}, 400, 13),
        ({"columns": {"column_names": ["nope"]}}, 404, 12),
        ({"columns": {"column_names": ["id"], "column_aliases": {"a": "id"}}}, 400, 13),
        ({"full_text_query": {}}, 400, 13),
        ({"full_text_query": {"string_query": {"query": "x", "columns": ["nope"]}}}, 404, 12),
        ({"full_text_query": {"structured_query": {"query": {}}}}, 400, 13),
        (
            {
                "full_text_query": {
                    "structured_query": {"query": {"boolean": {"must": [], "must_not": [], "should": []}}}
                }
            },
            400,
            13,
        ),
        ({"vector": NEAR_THREE, "ef": 10**9}, 400, 13),
        ({"vector": NEAR_THREE, "k": 2**62, "refine_factor": 10**6}, 400, 13),
        ({"branch": "nope"}, 404, 22),
    ],
)
def test_an_invalid_query_is_refused(lake: Lake, boats: str, body: dict[str, Any], status: int, code: int) -> None:
    with refused(status, code):
        run_query(lake, boats, **body)
