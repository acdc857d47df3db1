"""Shadows and offers: what a shadow contains, and what becomes of the commit that Spark made in it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from moorage.core.errors import InvalidInput
from moorage.formats.delta.actions import DomainMetadata, Metadata, Protocol, SetTransaction, read_commit
from moorage.formats.delta.file_actions import AddFile, DeletionVector, Texts
from moorage.formats.delta.offers import Dropped, Target, Translation, input_paths, read_shadow_commit, translate
from moorage.formats.delta.partition_values import original_values
from moorage.formats.delta.schema import parse_schema
from moorage.formats.delta.shadow import TableSide, empty_checksum, hadoop_location, shadow_log

ROOT = "file:/lake/t/"
FOLDER = "compact-01939c1e-5a6f-7cc1-9d3e-8f5a2b7c4d11/3f9a0c2be417/"
VECTOR = DeletionVector(
    storage_type="u", path_or_inline_dv="ab^-aqEH.-t@S}K{vb[*k^", offset=1, size_in_bytes=36, cardinality=2
)
"""The example of the protocol: its file is ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin."""
SCHEMA = {
    "type": "struct",
    "fields": [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in {"id": "long", "p": "string", "at": "timestamp", "n": "decimal(5,2)"}.items()
    ],
}


def file(path: str = "a.parquet", rows: int | None = 10, **more: Any) -> AddFile:
    stats = None if rows is None else json.dumps({"numRecords": rows})
    fields = {"partition_values": {}, "size": 100, "modification_time": 1, "data_change": True, "stats": stats}
    return AddFile(path=path, **{**fields, **more})


def side(**configuration: str) -> TableSide:
    return TableSide(
        timestamp_ms=5,
        protocol=Protocol(
            min_reader_version=3,
            min_writer_version=7,
            reader_features=("catalogManaged", "deletionVectors"),
            writer_features=("catalogManaged", "deletionVectors", "rowTracking"),
        ),
        metadata=Metadata(id="m", schema_string=json.dumps(SCHEMA), configuration=configuration),
        domains={"delta.clustering": DomainMetadata("delta.clustering", "{}")},
        transactions={"app": SetTransaction(app_id="app", version=3)},
    )


def lines(data: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in data.splitlines()]


def target(**more: Any) -> Target:
    known: dict[str, Any] = {
        "folder": FOLDER,
        "root": ROOT,
        "version": 8,
        "timestamp_ms": 1000,
        "txn_id": "t",
        "engine": "Moorage",
        "tracks_rows": False,
        "row_id_mark": None,
        "schema": parse_schema(json.dumps(SCHEMA)),
        "partition_columns": (),
    }
    return Target(**{**known, **more})


def spark_commit(*actions: dict[str, Any], operation: str = "OPTIMIZE", **info: Any) -> bytes:
    first = {"commitInfo": {"operation": operation, "timestamp": 1, "tags": {"x": "y"}, **info}}
    return b"".join(json.dumps(action).encode() + b"\n" for action in (first, *actions))


def added(path: str = "part-1.parquet", rows: int | None = 20, **more: Any) -> dict[str, Any]:
    stats = {} if rows is None else {"stats": json.dumps({"numRecords": rows})}
    fields = {"path": path, "partitionValues": {}, "size": 9, "modificationTime": 2, "dataChange": False}
    return {"add": {**fields, **stats, **more}}


def removed(path: str = "file:/lake/t/a.parquet", **more: Any) -> dict[str, Any]:
    return {"remove": {"path": path, "dataChange": False, "deletionTimestamp": 3, **more}}


INLINE = {"storageType": "i", "pathOrInlineDv": "x", "sizeInBytes": 1, "cardinality": 1}
TWO = (file("a.parquet"), file("b.parquet"))
REWRITE = (added(), removed(), removed("file:/lake/t/b.parquet"))


def translated(*actions: dict[str, Any], files: tuple[AddFile, ...] = TWO, **to: Any) -> Translation:
    result = translate(read_shadow_commit(spark_commit(*actions)), files, target(**to))
    assert isinstance(result, Translation), result
    return result


# --- the shadow --------------------------------------------------------------------------------


def test_a_shadow_has_the_features_of_the_table_but_is_not_managed() -> None:
    kept = {"delta.enableRowTracking": "true", "delta.constraints.c": "id > 0"}
    dropped = {
        "io.unitycatalog.tableId": "x",
        "delta.universalFormat.enabledFormats": "iceberg",
        "delta.autoOptimize.autoCompact": "true",
        "delta.inCommitTimestampEnablementVersion": "4",
    }
    info, protocol, metadata, domain, txn = lines(shadow_log(side(**kept, **dropped), (), ROOT))
    assert info["commitInfo"]["inCommitTimestamp"] == 5
    assert protocol["protocol"]["readerFeatures"] == ["deletionVectors"]
    assert protocol["protocol"]["writerFeatures"] == ["deletionVectors", "rowTracking"]
    assert metadata["metaData"]["configuration"] == {**kept, "delta.enableExpiredLogCleanup": "false"}
    assert domain["domainMetadata"] == {"domain": "delta.clustering", "configuration": "{}", "removed": False}
    assert txn["txn"]["version"] == 3


def test_the_checksum_of_an_empty_shadow_says_what_its_log_does() -> None:
    table = side(**{"delta.enableRowTracking": "true"})
    info, protocol, metadata, domain, txn = lines(shadow_log(table, (), ROOT))
    checksum = json.loads(empty_checksum(table))
    assert checksum["txnId"] == info["commitInfo"]["txnId"]
    assert (checksum["protocol"], checksum["metadata"]) == (protocol["protocol"], metadata["metaData"])
    assert (checksum["domainMetadata"], checksum["setTransactions"]) == ([domain["domainMetadata"]], [txn["txn"]])
    assert (checksum["numFiles"], checksum["allFiles"]) == (0, [])
    assert checksum["inCommitTimestampOpt"] == info["commitInfo"]["inCommitTimestamp"]


def test_files_and_vectors_are_named_by_absolute_paths() -> None:
    given = file("p=a%20b/x.parquet", deletion_vector=VECTOR, base_row_id=7, default_row_commit_version=2)
    *_, add = lines(shadow_log(side(), (given,), ROOT))
    assert add["add"]["path"] == "file:/lake/t/p=a%20b/x.parquet"
    assert add["add"]["deletionVector"]["storageType"] == "p"
    name = "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
    assert add["add"]["deletionVector"]["pathOrInlineDv"] == f"file:/lake/t/{name}"
    assert (add["add"]["baseRowId"], add["add"]["defaultRowCommitVersion"]) == (7, 2)


@pytest.mark.parametrize(
    ("location", "hadoop"),
    [
        ("file:///lake/t/", "file:/lake/t/"),
        ("file:///lake/a%20b", "file:/lake/a%20b/"),
        ("s3://bucket/t/", "s3a://bucket/t/"),
    ],
)
def test_locations_are_written_as_hadoop_prints_them(location: str, hadoop: str) -> None:
    assert hadoop_location(location) == hadoop


# --- the translation ---------------------------------------------------------------------------


def test_new_files_get_the_folder_of_the_shadow_and_old_ones_their_own_paths() -> None:
    info, add, *removes = lines(translated(*REWRITE).data)
    assert info["commitInfo"] == {
        "inCommitTimestamp": 1000,
        "timestamp": 1000,
        "operation": "OPTIMIZE",
        "tags": {"x": "y"},
        "readVersion": 7,
        "isBlindAppend": False,
        "engineInfo": "Moorage",
        "txnId": "t",
    }
    assert add["add"]["path"] == f"{FOLDER}part-1.parquet"
    assert [each["remove"]["path"] for each in removes] == ["a.parquet", "b.parquet"]
    assert all(each["remove"]["dataChange"] is False for each in removes)
    assert read_commit(translated(*REWRITE).data).summary.data_changes == 0


def test_a_path_is_found_in_another_spelling() -> None:
    inputs = (file("p=%C3%BC%2525/a.parquet"),)
    gone = removed("file:/lake/t/p=ü%2525/a.parquet")
    assert lines(translated(added(rows=10), gone, files=inputs).data)[-1]["remove"]["path"] == inputs[0].path


def test_row_ids_start_above_the_mark_of_the_head() -> None:
    inputs = tuple(replace(each, base_row_id=n * 10, default_row_commit_version=n) for n, each in enumerate(TWO))
    two = (added("x.parquet", 15, baseRowId=20, defaultRowCommitVersion=1), added("y.parquet", 5))
    result = translated(*two, *REWRITE[1:], files=inputs, tracks_rows=True, row_id_mark=99)
    _, domain, first, second, *removes = lines(result.data)
    assert domain["domainMetadata"]["configuration"] == '{"rowIdHighWaterMark":119}'
    assert [(each["add"]["baseRowId"], each["add"]["defaultRowCommitVersion"]) for each in (first, second)] == [
        (100, 8),
        (115, 8),
    ]
    assert [(each["remove"]["baseRowId"], each["remove"]["defaultRowCommitVersion"]) for each in removes] == [
        (0, 0),
        (10, 1),
    ]


def test_partition_values_keep_the_texts_of_the_old_files() -> None:
    old: Texts = {"p": "", "at": "1969-12-31 23:59:59.5", "n": "1.5"}
    to_original = original_values([old], parse_schema(json.dumps(SCHEMA)), ("p", "at", "n"))
    assert to_original({"p": None, "at": "1969-12-31T23:59:59.500000Z", "n": "1.50"}) == old
    assert to_original({"p": "other", "at": None, "n": None}) == {"p": "other", "at": None, "n": None}


# --- what no longer applies, and what is refused -----------------------------------------------


def test_a_rewrite_of_a_file_that_is_gone_is_dropped() -> None:
    commit = read_shadow_commit(spark_commit(*REWRITE))
    assert translate(commit, TWO[:1], target()) == Dropped("'b.parquet' is no longer a file of the table")


def test_a_rewrite_of_a_file_whose_rows_were_deleted_meanwhile_is_dropped() -> None:
    commit = read_shadow_commit(spark_commit(*REWRITE))
    later = (TWO[0], replace(TWO[1], deletion_vector=VECTOR))
    assert translate(commit, later, target()) == Dropped("rows of 'b.parquet' were deleted meanwhile")


# --- partitions whose files have changed ---------------------------------------------------------

PARTITIONS: tuple[Texts, ...] = ({"p": "", "n": "1.5"}, {"p": "x", "n": "2"})
SPELLED: tuple[Texts, ...] = ({"p": None, "n": "1.50"}, {"p": "x", "n": "2.00"})
"""The same values as Spark writes them."""
OLD = tuple(
    file(f"{name}{n}.parquet", partition_values=values)
    for values, name in zip(PARTITIONS, "ab", strict=True)
    for n in (1, 2)
)
IN_TWO_PARTITIONS = (
    *(added(f"new-{name}.parquet", partitionValues=v) for v, name in zip(SPELLED, "ab", strict=True)),
    *(removed(ROOT + old.path, partitionValues=old.partition_values) for old in OLD),
)
BY_P_AND_N: dict[str, Any] = {"partition_columns": ("p", "n"), "tracks_rows": True, "row_id_mark": 39}


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        (OLD[1:], "'a1.parquet' is no longer a file of the table"),
        ((replace(OLD[0], deletion_vector=VECTOR), *OLD[1:]), "rows of 'a1.parquet' were deleted meanwhile"),
    ],
)
def test_a_partition_whose_files_have_changed_is_left_out(files: tuple[AddFile, ...], reason: str) -> None:
    result = translated(*IN_TWO_PARTITIONS, files=files, **BY_P_AND_N)
    assert (result.reason, result.left_out) == (reason, ("new-a.parquet",))
    assert [each.path for each in result.removed] == ["b1.parquet", "b2.parquet"]
    (new,) = result.added
    assert (new.path, new.partition_values, new.base_row_id) == (f"{FOLDER}new-b.parquet", PARTITIONS[1], 40)
    assert "operationMetrics" not in lines(result.data)[0]["commitInfo"]


@pytest.mark.parametrize(
    ("actions", "files"),
    [
        ((added("new-b.parquet", rows=21, partitionValues=SPELLED[1]), *IN_TWO_PARTITIONS[2:]), OLD[1:]),
        ((added("new-b.parquet", rows=None, partitionValues=SPELLED[1]), *IN_TWO_PARTITIONS[2:]), OLD[1:]),
        ((added("new-b.parquet", partitionValues={"p": "y", "n": "2"}), *IN_TWO_PARTITIONS[2:]), OLD[1:]),
        (IN_TWO_PARTITIONS, (OLD[1], OLD[2], replace(OLD[3], stats=None))),
        ((*IN_TWO_PARTITIONS[:2], removed(ROOT + "a1.parquet"), *IN_TWO_PARTITIONS[3:]), OLD[1:]),
        (IN_TWO_PARTITIONS, (OLD[0], OLD[2])),
    ],
    ids=["more_rows", "unknown_new_rows", "other_partition", "unknown_old_rows", "unknown_partition", "all_changed"],
)
def test_all_is_dropped_where_it_is_unproven_which_rows_a_partition_has(
    actions: tuple[dict[str, Any], ...], files: tuple[AddFile, ...]
) -> None:
    result = translate(read_shadow_commit(spark_commit(*actions)), files, target(**BY_P_AND_N))
    assert isinstance(result, Dropped)
    assert "is no longer a file of the table" in result.reason


def test_the_vector_of_a_rewritten_file_is_recognised_by_its_absolute_path() -> None:
    path = "file:/lake/t/ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
    vector = {"storageType": "p", "pathOrInlineDv": path, "offset": 1, "sizeInBytes": 36, "cardinality": 2}
    result = translated(added(rows=8), removed(deletionVector=vector), files=(replace(TWO[0], deletion_vector=VECTOR),))
    assert lines(result.data)[-1]["remove"]["deletionVector"]["storageType"] == "u"


@pytest.mark.parametrize(
    ("actions", "reason"),
    [
        ([{"protocol": {"minReaderVersion": 3, "minWriterVersion": 7}}], "not an action of a rewrite"),
        ([{"metaData": {"id": "x"}}], "not an action of a rewrite"),
        ([{"txn": {"appId": "a", "version": 1}}], "not an action of a rewrite"),
        ([{"cdc": {"path": "c"}}], "not an action of a rewrite"),
        ([{"newThing": {}}], "not an action of a rewrite"),
        ([added(newField=1)], "unknown field"),
        ([{"domainMetadata": {"domain": "x", "configuration": "", "removed": False}}], "changes the domain x"),
        ([added(dataChange=True)], "changes rows"),
        ([removed(dataChange=True)], "changes rows"),
    ],
)
def test_a_commit_that_is_more_than_a_rewrite_is_refused(actions: list[dict[str, Any]], reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        read_shadow_commit(spark_commit(*actions))


def test_another_operation_is_refused() -> None:
    with pytest.raises(InvalidInput, match="'DELETE'"):
        read_shadow_commit(spark_commit(*REWRITE, operation="DELETE"))


@pytest.mark.parametrize(
    ("actions", "reason"),
    [
        ((added(path="file:/lake/t/x.parquet"), *REWRITE[1:]), "not below the folder"),
        ((added(path="/x.parquet"), *REWRITE[1:]), "not below the folder"),
        ((added(rows=19), *REWRITE[1:]), "20 rows and have 19"),
        (
            (added(deletionVector=INLINE), *REWRITE[1:]),
            "has a deletion vector",
        ),
    ],
)
def test_a_rewrite_that_does_not_keep_the_rows_is_refused(actions: tuple[dict[str, Any], ...], reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        translate(read_shadow_commit(spark_commit(*actions)), TWO, target())


def test_new_files_without_a_row_count_are_refused_if_rows_are_tracked() -> None:
    commit = read_shadow_commit(spark_commit(added(rows=None), *REWRITE[1:]))
    with pytest.raises(InvalidInput, match="numRecords"):
        translate(commit, TWO, target(tracks_rows=True, row_id_mark=20))


def test_a_file_outside_the_table_is_not_looked_up() -> None:
    commit = read_shadow_commit(spark_commit(removed("file:/lake/other/a.parquet")))
    with pytest.raises(InvalidInput, match="not a file of the table"):
        input_paths(commit.removed, ROOT)
