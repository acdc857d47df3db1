"""View metadata: versions, schemas and properties."""

from __future__ import annotations

from typing import Any

import pytest

from moorage.core.errors import InvalidInput, RequirementFailed
from moorage.formats.iceberg.documents import Document
from moorage.formats.iceberg.views import UPDATES, check_view_requirements, new_view, parse_view, updated_view
from tests.unit.formats.iceberg.tables import NOW_MS, SCHEMA, UUID

OTHER: Document = {"type": "struct", "fields": SCHEMA["fields"][:1]}


def version(sql: str = "select 1", dialect: str = "spark", **given: Any) -> Document:
    return {
        "version-id": 1,
        "timestamp-ms": NOW_MS,
        "schema-id": -1,
        "summary": {},
        "representations": [{"type": "sql", "sql": sql, "dialect": dialect}],
        "default-namespace": ["sales"],
        **given,
    }


def view(**properties: str) -> Document:
    return new_view(
        uuid=UUID, location="file:///v/", schema=SCHEMA, version=version(), properties=properties, now_ms=NOW_MS
    )


def add(sql: str, **given: Any) -> list[Document]:
    return [
        {"action": "add-view-version", "view-version": version(sql, **{"schema-id": 0, **given})},
        {"action": "set-current-view-version", "view-version-id": -1},
    ]


def apply(base: Document, *updates: Document, now_ms: int = NOW_MS + 9) -> Document:
    return updated_view(base, updates, now_ms=now_ms)


def test_a_new_view_has_one_version_with_the_schema_of_the_request() -> None:
    made = view(owner="ann")
    assert (made["current-version-id"], made["versions"][0]["schema-id"]) == (1, 0)
    assert made["version-log"] == [{"timestamp-ms": NOW_MS, "version-id": 1}]
    assert (made["location"], made["properties"]) == ("file:///v", {"owner": "ann"})
    assert parse_view(made) == made


def test_a_new_version_gets_the_next_id_and_an_equal_version_keeps_its_id() -> None:
    second = apply(view(), *add("select 2"))
    assert (second["current-version-id"], len(second["versions"])) == (2, 2)
    back = apply(second, *add("select 1"), now_ms=NOW_MS + 50)
    assert (back["current-version-id"], len(back["versions"])) == (1, 2)
    assert back["version-log"][-1] == {"timestamp-ms": NOW_MS + 50, "version-id": 1}
    assert apply(second, *add("select 2")) is second


def test_a_version_that_was_current_only_within_a_request_is_not_in_the_log() -> None:
    both = apply(view(), *add("select 2"), *add("select 3"))
    assert (both["current-version-id"], len(both["versions"])) == (3, 3)
    assert [each["version-id"] for each in both["version-log"]] == [1, 3]


def test_a_version_may_have_another_schema() -> None:
    after = apply(view(), {"action": "add-schema", "schema": OTHER}, *add("select 2", **{"schema-id": -1}))
    assert after["versions"][1]["schema-id"] == 1
    with pytest.raises(InvalidInput, match="no schema 7"):
        apply(view(), *add("select 2", **{"schema-id": 7}))


def test_old_versions_are_removed_and_the_log_begins_after_them() -> None:
    made = view(**{"version.history.num-entries": "3"})
    for n in range(2, 7):
        made = apply(made, *add(f"select {n}"))
    assert [each["version-id"] for each in made["versions"]] == [4, 5, 6]
    assert [each["version-id"] for each in made["version-log"]] == [4, 5, 6]
    with pytest.raises(InvalidInput, match="must be positive but was 0"):
        view(**{"version.history.num-entries": "0"})


def test_a_dialect_can_be_dropped_only_if_allowed() -> None:
    trino = add("select 2", representations=[{"type": "sql", "sql": "select 2", "dialect": "trino"}])
    with pytest.raises(InvalidInput, match="loss of view dialects"):
        apply(view(), *trino)
    assert apply(view(**{"replace.drop-dialect.allowed": "true"}), *trino)["current-version-id"] == 2


@pytest.mark.parametrize(
    "wrong",
    [
        {"representations": []},
        {"representations": [{"type": "dance", "sql": "x", "dialect": "spark"}]},
        {"representations": [{"type": "sql", "sql": "x", "dialect": d} for d in ("Spark", "spark")]},
        {"representations": [{"type": "sql", "sql": "", "dialect": "spark"}]},
        {"default-namespace": "sales"},
        {"summary": {"a": 1}},
        {"timestamp-ms": None},
        {"version-id": "1"},
    ],
)
def test_a_version_that_clients_could_not_read_is_refused(wrong: Document) -> None:
    with pytest.raises(InvalidInput):
        apply(view(), *add("select 2", **wrong))


def test_views_accept_eight_updates_and_refuse_those_of_tables() -> None:
    assert len(UPDATES) == 8
    with pytest.raises(InvalidInput, match="unknown update"):
        apply(view(), {"action": "add-spec", "spec": {"fields": []}})
    with pytest.raises(InvalidInput, match="uuid of a view cannot be changed"):
        apply(view(), {"action": "assign-uuid", "uuid": UUID[:-1] + "1"})
    with pytest.raises(InvalidInput, match="format version 1"):
        apply(view(), {"action": "upgrade-format-version", "format-version": 2})
    assert apply(view(), {"action": "assign-uuid", "uuid": UUID.upper()}) == view()


def test_the_current_view_version_must_exist() -> None:
    for id in (-1, 9):
        with pytest.raises(InvalidInput):
            apply(view(), {"action": "set-current-view-version", "view-version-id": id})


def test_a_view_with_another_uuid_is_a_conflict() -> None:
    check_view_requirements(view(), [{"type": "assert-view-uuid", "uuid": UUID.upper()}])
    with pytest.raises(RequirementFailed):
        check_view_requirements(view(), [{"type": "assert-view-uuid", "uuid": UUID[:-1] + "1"}])
    with pytest.raises(InvalidInput):
        check_view_requirements(view(), [{"type": "assert-create"}])


@pytest.mark.parametrize(
    "changes",
    [
        {"format-version": 2},
        {"view-uuid": "x"},
        {"location": ""},
        {"versions": []},
        {"schemas": []},
        {"current-version-id": 7},
        {"version-log": [{}]},
        {"properties": {"a": 1}},
    ],
)
def test_a_file_that_is_not_a_view_is_refused(changes: Document) -> None:
    with pytest.raises(InvalidInput):
        parse_view({**view(), **changes})
