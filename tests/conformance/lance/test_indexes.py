"""Indexes through Lance's generated client."""

from __future__ import annotations

from typing import Any

import pytest
from lance_namespace_urllib3_client.models import (
    CreateTableIndexRequest,
    DescribeTableIndexStatsRequest,
    ListTableIndicesRequest,
)

from tests.conformance.lance.lake import Lake, refused, rows, stream


def build(lake: Lake, id: str, column: str, kind: str, **options: Any) -> None:
    lake.indexes.create_table_index(id, CreateTableIndexRequest(column=column, index_type=kind, **options))


def test_indexes_of_every_kind_are_built_listed_and_dropped(lake: Lake) -> None:
    id = lake.table(300)
    kinds: dict[str, tuple[str, str, dict[str, Any]]] = {
        "by_id": ("id", "BTREE", {}),
        "by_bits": ("text", "BITMAP", {}),
        "by_words": ("text", "FTS", {"language": "English", "stem": False}),
        "by_place": ("vector", "IVF_FLAT", {"num_partitions": 2, "distance_type": "cosine"}),
        "by_code": ("vector", "IVF_PQ", {"num_partitions": 1}),
        "by_graph": ("vector", "IVF_HNSW_SQ", {"num_partitions": 1, "m": 4, "ef_construction": 20}),
    }
    for name, (column, kind, options) in kinds.items():
        build(lake, id, column, kind, name=name, **options)
    listed = lake.indexes.list_table_indices(id, ListTableIndicesRequest()).indexes
    assert {each.index_name: (each.columns[0], each.index_type) for each in listed} == {
        name: (column, kind) for name, (column, kind, _) in kinds.items()
    }
    assert {(each.num_indexed_rows, each.num_unindexed_rows, each.status) for each in listed} == {(300, 0, "done")}
    assert {index.name for index in lake.dataset(id).describe_indices()} == set(kinds)
    for name in kinds:
        lake.indexes.drop_table_index(id, name)
    assert lake.indexes.list_table_indices(id, ListTableIndicesRequest()).indexes == []


def test_indexes_are_listed_in_pages(lake: Lake) -> None:
    id = lake.table(10)
    names = ["a", "b", "c", "d", "e"]
    for name in names:
        build(lake, id, "id", "BTREE", name=name)
    seen, token = [], None
    for _ in range(3):
        page = lake.indexes.list_table_indices(id, ListTableIndicesRequest(limit=2, page_token=token))
        seen += [each.index_name for each in page.indexes]
        token = page.page_token
    assert (seen, token) == (names, None)


def test_statistics_state_how_much_an_index_covers(lake: Lake) -> None:
    id = lake.table(10)
    build(lake, id, "id", "BTREE", name="by id")
    lake.data.insert_into_table(id, stream(rows(5, 10)))
    stats = lake.indexes.describe_table_index_stats(id, "by id", DescribeTableIndexStatsRequest())
    assert (stats.index_type, stats.num_indexed_rows, stats.num_unindexed_rows) == ("BTREE", 10, 5)
    build(lake, id, "vector", "IVF_FLAT", name="near", num_partitions=1, distance_type="dot")
    stats = lake.indexes.describe_table_index_stats(id, "near", DescribeTableIndexStatsRequest())
    assert (stats.distance_type, stats.num_indexed_rows) == ("dot", 15)


def test_a_taken_or_missing_index_name_is_refused(lake: Lake) -> None:
    id = lake.table(10)
    build(lake, id, "id", "BTREE", name="once")
    with refused(409, 7):
        build(lake, id, "id", "BTREE", name="once")
    with refused(404, 6):
        lake.indexes.drop_table_index(id, "never")
    with refused(404, 6):
        lake.indexes.describe_table_index_stats(id, "never", DescribeTableIndexStatsRequest())


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"column": "nope", "index_type": "BTREE"}, 404, 12),
        ({"column": "id", "index_type": "TREE"}, 400, 13),
        ({"column": "vector", "index_type": "BTREE"}, 400, 13),
        ({"column": "id", "index_type": "IVF_FLAT"}, 400, 13),
        ({"column": "text", "index_type": "FTS", "language": "Klingon"}, 400, 13),
        ({"column": "text", "index_type": "FTS", "base_tokenizer": "axe"}, 400, 13),
        ({"column": "vector", "index_type": "IVF_PQ", "num_sub_vectors": 3}, 400, 13),
        ({"column": "vector", "index_type": "IVF_FLAT", "distance_type": "miles"}, 400, 13),
        ({"column": "vector", "index_type": "IVF_FLAT", "num_partitions": 10**9}, 400, 13),
    ],
)
def test_an_invalid_index_is_refused(lake: Lake, body: dict[str, Any], status: int, code: int) -> None:
    id = lake.table(10)
    with refused(status, code):
        lake.indexes.create_table_index(id, CreateTableIndexRequest.model_validate(body))
    assert lake.dataset(id).version == 1


def test_the_scalar_route_refuses_a_vector_index(lake: Lake) -> None:
    id = lake.table(10)
    lake.indexes.create_table_scalar_index(id, CreateTableIndexRequest(column="id", index_type="btree"))
    with refused(400, 13):
        lake.indexes.create_table_scalar_index(id, CreateTableIndexRequest(column="vector", index_type="IVF_FLAT"))
