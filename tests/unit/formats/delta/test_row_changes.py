"""Changes of rows: what becomes of the commit that MERGE, UPDATE, DELETE or INSERT made in a shadow."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from moorage.core.errors import InvalidInput
from moorage.formats.delta.actions import Metadata, SetTransaction, read_commit
from moorage.formats.delta.file_actions import AddFile
from moorage.formats.delta.offers import Dropped, Translation
from moorage.formats.delta.row_changes import read_row_change, translate_change
from tests.unit.formats.delta.test_shadow import SCHEMA, VECTOR, added, file, lines, removed, spark_commit, target

FOLDER = "change-3f9a0c2be4175a6f7cc19d3e8f5a2b7c/"
VECTOR_ID = "^-aqEH.-t@S}K{vb[*k^"
NEW_VECTOR = {"storageType": "u", "pathOrInlineDv": VECTOR_ID, "offset": 1, "sizeInBytes": 34, "cardinality": 1}
METADATA = Metadata(
    id="m",
    schema_string=json.dumps(SCHEMA),
    configuration={"io.unitycatalog.tableId": "x", "delta.enableDeletionVectors": "true"},
)


def add(path: str = "part-1.parquet", rows: int | None = 20, **more: Any) -> dict[str, Any]:
    return added(path, rows, **{"dataChange": True, **more})


def remove(path: str = "file:/lake/t/a.parquet", **more: Any) -> dict[str, Any]:
    return removed(path, **{"dataChange": True, **more})


def translated(
    *actions: dict[str, Any],
    files: tuple[AddFile, ...] = (file("a.parquet"),),
    operation: str = "MERGE",
    blind: bool = False,
    also: SetTransaction | None = None,
    **to: Any,
) -> Translation | Dropped:
    change = read_row_change(spark_commit(*actions, operation=operation, isBlindAppend=blind))
    return translate_change(change, files, target(folder=FOLDER, **to), METADATA, also)


def actions_of(*actions: dict[str, Any], **more: Any) -> list[dict[str, Any]]:
    result = translated(*actions, **more)
    assert isinstance(result, Translation), result
    read_commit(result.data)  # a commit that the server would accept from any writer
    return lines(result.data)


def test_a_file_with_new_deleted_rows_keeps_its_path_and_row_ids_and_the_vector_gets_the_folder() -> None:
    old = replace(file("p=1/a.parquet"), base_row_id=40, default_row_commit_version=3)
    stats = json.dumps({"numRecords": 10, "tightBounds": False})
    kept = add("file:/lake/t/p=1/a.parquet", None, stats=stats, deletionVector=NEW_VECTOR, baseRowId=0)
    gone = remove("file:/lake/t/p=1/a.parquet")
    _, added_again, removed_before = actions_of(kept, gone, files=(old,), tracks_rows=True, row_id_mark=99)
    assert added_again["add"]["path"] == "p=1/a.parquet"
    assert added_again["add"]["deletionVector"]["pathOrInlineDv"] == f"{FOLDER.rstrip('/')}{VECTOR_ID}"
    assert added_again["add"]["stats"] == stats
    assert (added_again["add"]["baseRowId"], added_again["add"]["defaultRowCommitVersion"]) == (40, 3)
    assert removed_before["remove"]["path"] == "p=1/a.parquet"
    assert "deletionVector" not in removed_before["remove"]
    assert removed_before["remove"]["dataChange"] is True


def test_a_second_vector_replaces_the_first_one_which_is_removed_as_the_table_names_it() -> None:
    absolute = "file:/lake/t/ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
    before = {"storageType": "p", "pathOrInlineDv": absolute, "offset": 1, "sizeInBytes": 36, "cardinality": 2}
    old = replace(file("a.parquet"), deletion_vector=VECTOR)
    kept = add("file:/lake/t/a.parquet", deletionVector={**NEW_VECTOR, "cardinality": 3})
    _, _, gone = actions_of(kept, remove(deletionVector=before), files=(old,), operation="DELETE")
    assert gone["remove"]["deletionVector"]["pathOrInlineDv"] == VECTOR.path_or_inline_dv


def test_new_files_change_data_and_transactions_are_kept() -> None:
    cdc = {"cdc": {"path": "_change_data/c.parquet", "partitionValues": {}, "size": 5, "dataChange": False}}
    txn = {"txn": {"appId": "stream", "version": 7}}
    also = SetTransaction(app_id="ingest", version=3)
    info, domain, first, second, new, gone, change = actions_of(
        add(rows=8), remove(), cdc, txn, also=also, tracks_rows=True, row_id_mark=99
    )
    assert info["commitInfo"]["operation"] == "MERGE"
    assert info["commitInfo"]["isBlindAppend"] is False
    assert domain["domainMetadata"]["configuration"] == '{"rowIdHighWaterMark":107}'
    assert first["txn"] == {"appId": "stream", "version": 7, "lastUpdated": 1000}
    assert second["txn"] == {"appId": "ingest", "version": 3, "lastUpdated": 1000}
    assert new["add"]["path"] == f"{FOLDER}part-1.parquet"
    assert (new["add"]["baseRowId"], new["add"]["defaultRowCommitVersion"]) == (100, 8)
    assert gone["remove"]["path"] == "a.parquet"
    assert change["cdc"]["path"] == f"{FOLDER}_change_data/c.parquet"
    assert change["cdc"]["dataChange"] is False


def test_only_an_append_that_read_nothing_is_blind() -> None:
    info, *_ = actions_of(add(), operation="WRITE", blind=True, files=())
    assert info["commitInfo"]["isBlindAppend"] is True
    info, *_ = actions_of(add(), remove(), operation="WRITE", blind=True)
    assert info["commitInfo"]["isBlindAppend"] is False


def test_new_columns_keep_the_properties_of_the_catalog() -> None:
    wider = {**SCHEMA, "fields": [*SCHEMA["fields"], {"name": "new", "type": "long", "nullable": True, "metadata": {}}]}
    shadow = {
        "delta.enableDeletionVectors": "true",
        "delta.enableExpiredLogCleanup": "false",
        "delta.columnMapping.maxColumnId": "9",
    }
    stated = {"id": "m", "schemaString": json.dumps(wider), "partitionColumns": [], "configuration": shadow}
    _, metadata, _ = actions_of({"metaData": {**stated, "format": {"provider": "parquet", "options": {}}}}, add())
    assert metadata["metaData"]["configuration"] == {**METADATA.configuration, "delta.columnMapping.maxColumnId": "9"}
    assert json.loads(metadata["metaData"]["schemaString"]) == wider
    assert metadata["metaData"]["partitionColumns"] == []


def test_the_files_that_spark_wrote_are_named_with_their_sizes() -> None:
    cdc = {"cdc": {"path": "_change_data/c%20d.parquet", "partitionValues": {}, "size": 5, "dataChange": False}}
    kept = add("file:/lake/t/a.parquet", deletionVector=NEW_VECTOR)
    found = read_row_change(spark_commit(add("x%20y.parquet"), kept, remove(), cdc, operation="MERGE")).new_sizes()
    assert sorted(found) == [
        ("_change_data/c d.parquet", 5, False),
        ("deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin", 43, True),
        ("x y.parquet", 9, False),
    ]


def test_a_change_of_a_file_that_is_gone_is_dropped() -> None:
    assert translated(remove(), files=()) == Dropped("'a.parquet' is no longer a file of the table")


@pytest.mark.parametrize(
    ("actions", "reason"),
    [
        ([{"protocol": {"minReaderVersion": 3, "minWriterVersion": 7}}], "not an action"),
        ([{"newThing": {}}], "not an action"),
        ([add(newField=1)], "unknown field"),
        ([{"domainMetadata": {"domain": "x", "configuration": "", "removed": False}}], "changes the domain x"),
        ([add(dataChange=False)], "does not change rows"),
        ([add("file:/lake/t/other.parquet"), remove()], "did not remove"),
        ([add("file:/lake/t/a.parquet"), remove()], "restores the deleted rows"),
        ([add("/x.parquet"), remove()], "did not remove"),
        ([add(deletionVector=NEW_VECTOR)], "has a deletion vector"),
        ([add("file:/lake/t/a.parquet", deletionVector={**NEW_VECTOR, "storageType": "p"}), remove()], "not below"),
        ([{"cdc": {"path": "/c.parquet", "partitionValues": {}, "size": 5, "dataChange": False}}], "not below"),
        ([{"metaData": {"id": "m", "schemaString": "{}", "configuration": {"delta.appendOnly": "true"}}}], "property"),
    ],
)
def test_what_is_not_understood_is_refused(actions: list[dict[str, Any]], reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        translated(*actions)


@pytest.mark.parametrize("operation", ["OPTIMIZE", "RESTORE", "SET TBLPROPERTIES", ""])
def test_another_operation_is_refused(operation: str) -> None:
    with pytest.raises(InvalidInput, match="operation"):
        read_row_change(spark_commit(add(), operation=operation))
