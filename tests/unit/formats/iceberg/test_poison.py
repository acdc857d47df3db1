"""Values that Java readers cannot load are refused: after one such commit, Spark could not load the table."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import msgspec
import pytest

from moorage.core.errors import InvalidInput
from moorage.formats.iceberg.changes import TableUpdate, to_documents
from moorage.formats.iceberg.documents import Document
from moorage.formats.iceberg.table_metadata import parse_table
from moorage.formats.iceberg.views import new_view, parse_view
from tests.unit.formats.iceberg.poison import POISONED, add_key, changed, paths_of
from tests.unit.formats.iceberg.tables import NOW_MS, SCHEMA, UUID, add, apply, set_ref, with_snapshots

_decode = msgspec.json.Decoder(list[TableUpdate]).decode


def sent(*updates: Document) -> list[Document]:
    """The updates as the API decodes them from a request."""
    return to_documents(_decode(msgspec.json.encode(updates)))


@pytest.mark.parametrize(("updates", "path", "value"), POISONED)
def test_an_update_that_readers_cannot_load_is_refused(
    updates: list[Document], path: tuple[Any, ...], value: Any
) -> None:
    base = with_snapshots(2, 3)
    assert apply(base, *sent(*updates)) != base
    with pytest.raises(InvalidInput):
        apply(base, *sent(*changed(updates, path, value)))


def test_a_null_value_is_treated_as_absent() -> None:
    rows = {"first-row-id": 20, "added-rows": 5}
    bare = add(3, **rows)
    nulls: Document = {"parent-snapshot-id": None, "summary": {"operation": "append", "n": None}, "schema-id": None}
    del bare["snapshot"]["schema-id"]
    with_nulls = {"action": "add-snapshot", "snapshot": {**bare["snapshot"], **nulls}}
    field = {"id": 4, "name": "n", "required": False, "type": "long"}
    wider = {**SCHEMA, "fields": [*SCHEMA["fields"], field]}
    null_fields = {**SCHEMA, "fields": [*SCHEMA["fields"], {**field, "doc": None, "initial-default": None}]}
    base = with_snapshots(2, 3)
    expected = apply(base, *sent(bare, set_ref(3), {"action": "add-schema", "schema": wider}, add_key()))
    key: Document = {"encrypted-by-id": None, "properties": None}
    found = apply(base, *sent(with_nulls, set_ref(3), {"action": "add-schema", "schema": null_fields}, add_key(**key)))
    assert found == expected


def test_null_values_in_a_file_are_treated_as_absent() -> None:
    whole = with_snapshots(2)
    with_nulls = deepcopy(whole)
    with_nulls["snapshots"][0]["parent-snapshot-id"] = None
    with_nulls["schemas"][0]["fields"][0]["doc"] = None
    assert parse_table(with_nulls) == parse_table(whole)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("last-column-id",), 2**31),
        (("last-partition-id",), 2**31),
        (("schemas", 0, "schema-id"), 2**31),
        (("schemas",), [{**SCHEMA, "schema-id": 0}] * 2),
        (("sort-orders",), []),
        (("sort-orders", 0, "order-id"), 1),
        (("default-sort-order-id",), 7),
        (("snapshots", 0, "snapshot-id"), 2),
        (("snapshots", 0, "snapshot-id"), []),
        (("snapshot-log", 0, "snapshot-id"), "x"),
        (("metadata-log",), [{"metadata-file": None, "timestamp-ms": NOW_MS}]),
        (("encryption-keys",), [{"key-id": "k"}]),
        (("encryption-keys",), 1),
    ],
)
def test_a_file_that_readers_cannot_load_is_refused(path: tuple[Any, ...], value: Any) -> None:
    whole = with_snapshots(2)
    assert parse_table(whole)
    with pytest.raises(InvalidInput):
        parse_table(changed(whole, path, value))


VERSION: Document = {
    "version-id": 1,
    "timestamp-ms": NOW_MS,
    "schema-id": 0,
    "summary": {"engine": "spark"},
    "default-catalog": "lake",
    "default-namespace": ["sales"],
    "representations": [{"type": "sql", "sql": "select 1", "dialect": "spark"}],
}


def view(version: Document) -> Document:
    return new_view(uuid=UUID, location="file:///v", schema=SCHEMA, version=version, properties={}, now_ms=NOW_MS)


@pytest.mark.parametrize(("path", "value"), [(("default-catalog",), 1), (("version-id",), 2**31)])
def test_a_view_that_readers_cannot_load_is_refused(path: tuple[Any, ...], value: Any) -> None:
    with pytest.raises(InvalidInput):
        view(changed(VERSION, path, value))
    with pytest.raises(InvalidInput):
        parse_view(changed(view(VERSION), ("versions", 0, *path), value))
    null_fields = changed(VERSION, ("default-catalog",), None)
    assert "default-catalog" not in view(null_fields)["versions"][0]


def test_the_paths_of_a_document_lead_to_all_its_parts() -> None:
    assert list(paths_of({"a": [{"b": 1}], "c": 2})) == [("a",), ("a", 0), ("a", 0, "b"), ("c",)]
