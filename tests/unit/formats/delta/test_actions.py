"""Commit files: what is read, what is refused, and that a large one needs little memory."""

import json
import tracemalloc
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.core.errors import Damaged, InvalidInput
from moorage.formats.delta import log_commits
from moorage.formats.delta.actions import DomainMetadata, RowRange, SetTransaction, read_commit
from tests.unit.formats.delta import commits as make


def test_every_action_that_the_catalog_needs_is_read() -> None:
    commit = read_commit(
        make.file_of(
            make.commit_info(),
            make.protocol(),
            make.metadata(description="d"),
            make.high_water_mark(1),
            {"txn": {"appId": "stream", "version": 7, "lastUpdated": 5}},
            make.add("a.parquet", baseRowId=0, defaultRowCommitVersion=1),
            make.remove("b.parquet"),
            {"cdc": {"path": "_change_data/c.parquet", "partitionValues": {}, "size": 1, "dataChange": False}},
            {"tomorrow": {"path": "d"}},
        )
    )
    assert commit.commit_info is not None
    assert (commit.commit_info.operation, commit.commit_info.is_blind_append) == ("WRITE", True)
    assert commit.protocol is not None
    assert commit.protocol.features >= {"catalogManaged", "rowTracking"}
    assert commit.metadata is not None
    assert (commit.metadata.description, commit.metadata.configuration["owner.team"]) == ("d", "x")
    assert commit.domains == (DomainMetadata("delta.rowTracking", '{"rowIdHighWaterMark": 1}'),)
    assert commit.txns == (SetTransaction(app_id="stream", version=7, last_updated=5),)
    assert commit.added == (RowRange("a.parquet", 0, 2, 1),)
    assert (commit.removed, commit.cdc) == (("b.parquet",), ("_change_data/c.parquet",))
    counts = commit.summary
    assert (counts.adds, counts.removes, counts.cdc, counts.unknown) == (1, 1, 1, 1)
    assert (counts.bytes_added, counts.bytes_removed, counts.rows_added) == (1199, 1199, 2)
    assert counts.data_changes == 2


def test_rows_are_counted_only_if_every_file_states_their_number() -> None:
    counted = [make.commit_info(), make.add("a", rows=2), make.add("b", rows=5)]
    assert read_commit(make.file_of(*counted)).summary.rows_added == 7
    assert read_commit(make.file_of(*counted, make.add("c", rows=None))).summary.rows_added is None
    assert read_commit(make.file_of(*counted, make.add("c", stats="{"))).summary.rows_added is None


def test_only_deletion_vectors_with_a_path_are_kept() -> None:
    plain = "^-aqEH.-t@S}K{vb[*k^"
    kinds = [("u", plain), ("u", "ab" + plain), ("p", "s3://lake/x.bin"), ("i", "wi5b=000010000siXQKl0rr91000f55c8Xg")]
    lines = [make.add(str(at), deletionVector=make.vector(*kind)) for at, kind in enumerate(kinds)]
    commit = read_commit(make.file_of(make.commit_info(), *lines))
    assert commit.summary.deletion_vectors == 4
    assert [vector.path_or_inline_dv for vector in commit.vectors] == ["ab" + plain, "s3://lake/x.bin"]


def test_a_row_level_delete_removes_and_adds_one_path_with_another_vector() -> None:
    commit = read_commit(make.file_of(make.commit_info(), make.remove(), make.add(deletionVector=make.vector())))
    assert (commit.summary.adds, commit.summary.removes) == (1, 1)


def test_the_commit_info_is_read_only_from_the_first_line() -> None:
    assert read_commit(make.file_of(make.add(), make.commit_info())).commit_info is None


def test_blank_lines_are_ignored() -> None:
    data = b"\n" + make.file_of(make.commit_info()) + b"\r\n  \n"
    assert read_commit(data).commit_info is not None


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([make.commit_info(), make.commit_info()], "two commitInfo"),
        ([make.protocol(), make.protocol()], "two protocol"),
        ([make.metadata(), make.metadata()], "two metaData"),
        ([make.high_water_mark(1), make.high_water_mark(2)], "two domainMetadata actions for 'delta.rowTracking'"),
        ([{"txn": {"appId": "a", "version": 1}}, {"txn": {"appId": "a", "version": 2}}], "two txn actions for 'a'"),
        ([make.add("a"), make.add("a", deletionVector=make.vector())], "two add actions for 'a'"),
        ([make.remove("a"), make.remove("a")], "two remove actions for 'a'"),
        ([make.cdc("a"), make.cdc("a")], "two cdc actions for 'a'"),
        ([make.add("a"), make.remove("a")], "both adds and removes 'a'"),
        ([make.add("a") | make.remove("b")], "line 1 of the commit holds more than one action"),
        ([{"sidecar": {"path": "a"}}], "belongs in a checkpoint"),
        ([make.commit_info(), {"checkpointMetadata": {"version": 1}}], "line 2 belongs in a checkpoint"),
        ([make.add(deletionVector=make.vector("x"))], "Invalid enum value 'x'"),
        ([make.add(deletionVector=make.vector("u", "short"))], "'short' of storage type 'u'"),
    ],
)
def test_a_file_that_is_not_a_valid_commit_is_refused(lines: list[dict[str, Any]], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        read_commit(make.file_of(*lines))


@pytest.mark.parametrize("key", ["path", "size", "partitionValues", "modificationTime", "dataChange"])
def test_an_add_without_a_required_field_is_refused(key: str) -> None:
    line = {"add": make.without(make.add()["add"], key)}
    with pytest.raises(InvalidInput, match=f"line 2 of the commit is not a Delta action.*{key}"):
        read_commit(make.file_of(make.commit_info(), line))


@pytest.mark.parametrize(
    "text",
    [
        b"not json",
        b'{"add":',
        b'["add"]',
        b'{"add":{"path":"a"}} {}',
        b'{"commitInfo":{"note":"\xff"}}',
        b'{"commitInfo":{"\xff":1}}',
        b'{"commitInfo":{"note":"\xed\xa0\x80"}}',
        b'{"protocol":{"minReaderVersion":"3","minWriterVersion":7}}',
        b'{"add":{"path":"a","size":-1,"partitionValues":{},"modificationTime":1,"dataChange":true}}',
        b'{"add":{"path":"a","size":9223372036854775808,"partitionValues":{},"modificationTime":1,"dataChange":true}}',
        b'{"note":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
    ids=lambda text: text[:40].decode(errors="replace"),
)
def test_the_error_for_a_line_that_is_not_an_action_states_its_number(text: bytes) -> None:
    with pytest.raises(InvalidInput, match=r"^line 2 of the commit is not a Delta action"):
        read_commit(make.file_of(make.commit_info()) + text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b'{"remove":{"path":"../another/table","path":"a"}}', "has a duplicate key"),
        (b'{"remove":{"path":"../another/table","\\u0070ath":"a"}}', "has a duplicate key"),
        (b'{"remove":{"path":"../another/table"},"remove":{"path":"a"}}', "has a duplicate key"),
        (b'{"remove":{"path":"../another/table"}, "remove":null}', "has a duplicate key"),
        (b'{"remove":{"path":"a","news":{"b":"c","b":1e9}}}', "has a duplicate key"),
        (b'{"remove":{"path":"a"}\r}', "holds a carriage return"),
    ],
)
def test_a_line_that_readers_could_read_differently_is_refused(text: bytes, words: str) -> None:
    with pytest.raises(InvalidInput, match=f"^line 2 of the commit {words}"):
        read_commit(make.file_of(make.commit_info()) + text)


@pytest.mark.parametrize(
    "text",
    [
        b'{ "remove" : { "path" : "a" , "tags" : { "path" : "b" } } }' + b"\r\n",
        b'{"remove":{"path":"\\u0061","news":{"n":1.50e1,"path":"\xc3\xa9\\\\\\":"}}}',
    ],
)
def test_a_line_may_have_any_unambiguous_spelling(text: bytes) -> None:
    assert read_commit(make.file_of(make.commit_info()) + text).removed == ("a",)


@pytest.mark.parametrize(
    "line",
    [
        make.remove(deletionTimestamp="yesterday"),
        make.remove(tags=["a"]),
        make.remove(extendedFileMetadata="yes"),
        make.add(tags={"a": 1}),
        make.add(deletionVector=make.without(make.vector(), "sizeInBytes")),
        make.add(deletionVector=make.without(make.vector(), "cardinality")),
        make.add(deletionVector=make.vector(sizeInBytes=2**31)),
        make.add(deletionVector=make.vector(offset=2**31)),
        make.add(clusteringProvider=7),
        {"cdc": make.without(make.cdc("a")["cdc"], "size")},
        {"cdc": make.without(make.cdc("a")["cdc"], "partitionValues")},
        {"txn": {"appId": "a", "version": "1"}},
    ],
)
def test_a_commit_that_could_not_be_read_from_the_log_is_refused(line: dict[str, Any]) -> None:
    data = make.file_of(make.commit_info(), line)
    with pytest.raises(Damaged):
        log_commits.read_commit(data, version=1, source="1.json")
    with pytest.raises(InvalidInput, match=r"^line 2 of the commit is not a Delta action"):
        read_commit(data)


def test_a_large_commit_needs_little_memory() -> None:
    stats = json.dumps({"numRecords": 1, "minValues": {"text": "x" * 5000}})
    lines = [make.add(f"part-{at:05d}.parquet", stats=stats) for at in range(2_000)]
    data = make.file_of(make.commit_info(), *lines)
    tracemalloc.start()
    try:
        commit = read_commit(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert commit.summary.adds == 2_000
    assert peak < len(data) / 10


@given(st.binary())
def test_random_bytes_are_read_or_refused(data: bytes) -> None:
    with suppress(InvalidInput):
        read_commit(data)
