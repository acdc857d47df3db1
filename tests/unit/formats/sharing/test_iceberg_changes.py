"""The changes between two versions of an Iceberg table."""

from __future__ import annotations

from typing import Any

import pytest

from moorage.formats.delta.actions import Metadata, Protocol
from moorage.formats.delta.file_actions import AddFile, DeletionVector, RemoveFile
from moorage.formats.delta.replay import LogState, part_of, to_table
from moorage.formats.sharing.iceberg_changes import changes_rows, commit_between

PROTOCOL = Protocol(min_reader_version=1, min_writer_version=2)
METADATA = Metadata(id="t", schema_string="{}", partition_columns=(), configuration={})


def file(path: str, vector: str | None = None) -> AddFile:
    deleted = None
    if vector is not None:
        deleted = DeletionVector(storage_type="i", path_or_inline_dv=vector, size_in_bytes=4, cardinality=1)
    return AddFile(
        path=path, partition_values={"p": path}, size=5, modification_time=0, data_change=True, deletion_vector=deleted
    )


def state(version: int, *files: AddFile, metadata: Metadata = METADATA) -> LogState:
    parts = (part_of(to_table(files)),) if files else ()
    return LogState(version=version, protocol=PROTOCOL, metadata=metadata, parts=parts)


def told(before: LogState, after: LogState, *, data_change: bool = True) -> list[tuple[str, str, str | None]]:
    commit = commit_between(before, after, data_change=data_change)
    assert commit.version == after.version
    assert {each.data_change for each in commit.files} <= {data_change}
    return [
        (
            "remove" if isinstance(each, RemoveFile) else "add",
            each.path,
            None if each.deletion_vector is None else each.deletion_vector.path_or_inline_dv,
        )
        for each in commit.files
    ]


def test_files_of_one_version_only_are_removed_or_added() -> None:
    assert told(state(1, file("a"), file("b")), state(2, file("b"), file("c"))) == [
        ("remove", "a", None),
        ("add", "c", None),
    ]
    assert told(LogState(), state(0)) == []
    assert told(state(1), state(2, file("a"))) == [("add", "a", None)]
    assert told(state(1, file("a")), state(2)) == [("remove", "a", None)]
    assert told(state(1, file("a")), state(2, file("a"))) == []


def test_a_file_with_another_vector_is_removed_and_added() -> None:
    assert told(state(1, file("a"), file("b")), state(2, file("a", "x"), file("b"))) == [
        ("remove", "a", None),
        ("add", "a", "x"),
    ]
    assert told(state(1, file("a", "x")), state(2, file("a", "y"))) == [("remove", "a", "x"), ("add", "a", "y")]


def test_a_removed_file_keeps_what_filters_and_clients_need() -> None:
    (removed,) = commit_between(state(1, file("a")), state(2), data_change=True).files
    assert (removed.partition_values, removed.size) == ({"p": "a"}, 5)


def test_a_rewrite_changes_no_data() -> None:
    assert told(state(1, file("a")), state(2, file("b")), data_change=False) == [
        ("remove", "a", None),
        ("add", "b", None),
    ]


def test_protocol_and_metadata_are_told_where_they_change() -> None:
    first = commit_between(LogState(), state(0), data_change=False)
    assert (first.protocol, first.metadata) == (PROTOCOL, METADATA)
    same = commit_between(state(0), state(1), data_change=False)
    assert (same.protocol, same.metadata) == (None, None)
    other = Metadata(id="t", schema_string="{1}", partition_columns=(), configuration={})
    assert commit_between(state(0), state(1, metadata=other), data_change=False).metadata == other


def document(current: int | None, *snapshots: tuple[int, int | None, str]) -> dict[str, Any]:
    listed = [
        {"snapshot-id": id, "parent-snapshot-id": parent, "summary": {"operation": operation}}
        for id, parent, operation in snapshots
    ]
    return {"current-snapshot-id": current, "snapshots": listed}


BASE = ((1, None, "append"),)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (None, document(None), False),
        (None, document(1, *BASE), True),
        (document(None), document(1, *BASE), True),
        (document(1, *BASE), document(1, *BASE), False),
        (document(1, *BASE), document(2, *BASE, (2, 1, "append")), True),
        (document(1, *BASE), document(2, *BASE, (2, 1, "replace")), False),
        # Several snapshots in one version.
        (document(1, *BASE), document(3, *BASE, (2, 1, "delete"), (3, 2, "replace")), True),
        (document(1, *BASE), document(3, *BASE, (2, 1, "replace"), (3, 2, "replace")), False),
        # Rolled back to an older snapshot.
        (document(2, *BASE, (2, 1, "append")), document(1, *BASE, (2, 1, "append")), True),
        # Rolled back, and rewritten: the way to the former snapshot is not found.
        (document(2, *BASE, (2, 1, "append")), document(3, *BASE, (3, 1, "replace")), True),
        # All rows removed by dropping the reference.
        (document(1, *BASE), document(None, *BASE), True),
    ],
)
def test_only_rewrites_leave_the_rows_as_they_were(
    before: dict[str, Any] | None, after: dict[str, Any], *, expected: bool
) -> None:
    assert changes_rows(before, after) is expected
