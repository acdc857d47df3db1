"""LanceDB against a real server."""

from __future__ import annotations

from typing import Any

import lancedb
import pyarrow as pa
import pytest
from lance_namespace import NamespaceNotEmptyError, TableNotFoundError
from lancedb.index import FTS

from moorage.testing.server import ServerProcess

ROWS = [
    {"id": 1, "city": "Oslo by the fjord", "vector": [1.0, 0.0]},
    {"id": 2, "city": "Rome on the Tiber", "vector": [0.0, 1.0]},
    {"id": 3, "city": "Kyiv on the Dnipro", "vector": [0.7, 0.7]},
]


@pytest.fixture
def db(lance_server: ServerProcess) -> Any:
    return lancedb.connect_namespace("rest", {"uri": f"{lance_server.url}/lance"})


def found(table: Any) -> list[int]:
    return sorted(table.to_arrow()["id"].to_pylist())


def test_tables_are_created_opened_listed_and_dropped(db: Any, lance_space: list[str]) -> None:
    db.create_table("cities", ROWS, namespace_path=lance_space)
    assert found(db.open_table("cities", namespace_path=lance_space)) == [1, 2, 3]
    assert db.list_tables(namespace_path=lance_space).tables == ["cities"]
    db.rename_table("cities", "towns", cur_namespace_path=lance_space, new_namespace_path=lance_space)
    assert found(db.open_table("towns", namespace_path=lance_space)) == [1, 2, 3]
    db.drop_table("towns", namespace_path=lance_space)
    assert db.list_tables(namespace_path=lance_space).tables == []
    with pytest.raises(TableNotFoundError):
        db.open_table("towns", namespace_path=lance_space)


def test_rows_are_added_updated_merged_and_deleted(db: Any, lance_space: list[str]) -> None:
    table = db.create_table("cities", ROWS, namespace_path=lance_space)
    table.add([{"id": 4, "city": "Bonn on the Rhine", "vector": [0.5, 0.5]}])
    table.update(where="id = 1", values={"city": "Bergen"})
    table.delete("id = 2")
    new = [{"id": 3, "city": "Lviv", "vector": [0.1, 0.1]}, {"id": 5, "city": "Porto", "vector": [0.2, 0.2]}]
    table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(new)
    again = db.open_table("cities", namespace_path=lance_space)
    assert {row["id"]: row["city"] for row in again.to_arrow().to_pylist()} == {
        1: "Bergen",
        3: "Lviv",
        4: "Bonn on the Rhine",
        5: "Porto",
    }
    assert again.version == 5


def test_a_table_is_overwritten_and_an_earlier_version_is_read_and_restored(db: Any, lance_space: list[str]) -> None:
    db.create_table("cities", ROWS, namespace_path=lance_space)
    table = db.create_table("cities", ROWS[:1], mode="overwrite", namespace_path=lance_space)
    assert (found(table), table.version) == ([1], 2)
    table.tags.create("whole", 1)
    table.checkout("whole")
    assert found(table) == [1, 2, 3]
    table.restore()
    assert (found(db.open_table("cities", namespace_path=lance_space)), table.version) == ([1, 2, 3], 3)


def test_vector_search_and_full_text_search_find_rows(db: Any, lance_space: list[str]) -> None:
    table = db.create_table("cities", ROWS, namespace_path=lance_space)
    assert [row["id"] for row in table.search([0.9, 0.1]).limit(2).to_list()] == [1, 3]
    table.create_index("city", config=FTS())
    assert [row["id"] for row in table.search("Tiber", query_type="fts").to_list()] == [2]


def test_namespaces_nest_and_are_dropped_only_if_they_are_empty(db: Any, lance_space: list[str]) -> None:
    inner = [*lance_space, "eu"]
    db.create_namespace(inner)
    db.create_table("cities", schema=pa.schema([("id", pa.int64())]), namespace_path=inner)
    assert db.list_namespaces(namespace_path=lance_space).namespaces == ["eu"]
    with pytest.raises(NamespaceNotEmptyError):
        db.drop_namespace(inner)
    db.drop_table("cities", namespace_path=inner)
    db.drop_namespace(inner)
    assert db.list_namespaces(namespace_path=lance_space).namespaces == []
