"""Replay of commits: the files of the table after each, and how a file is identified."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.core.errors import Damaged
from moorage.formats.delta.actions import DomainMetadata, SetTransaction
from moorage.formats.delta.file_actions import AddFile, ChangeFile, DeletionVector, RemoveFile
from moorage.formats.delta.log_commits import Commit, read_commit
from moorage.formats.delta.replay import LogState, advance, key_of, to_files, to_table


def vector(name: str, offset: int | None = 1) -> DeletionVector:
    return DeletionVector(storage_type="u", path_or_inline_dv=name, offset=offset, size_in_bytes=40, cardinality=2)


def add(path: str, dv: DeletionVector | None = None, *, size: int = 1) -> AddFile:
    return AddFile(path=path, partition_values={}, size=size, modification_time=1, data_change=True, deletion_vector=dv)


def remove(path: str, dv: DeletionVector | None = None) -> RemoveFile:
    return RemoveFile(path=path, deletion_vector=dv)


def commit(*files: AddFile | RemoveFile, version: int = 0) -> Commit:
    return Commit(version=version, files=files)


def keys_of(state: LogState) -> set[str]:
    return {key_of(file) for file in to_files(state.files())}


def test_a_removed_file_is_absent_and_the_others_remain() -> None:
    state = advance(LogState(), [commit(add("a"), add("b")), commit(remove("a"), add("c"), version=1)])
    assert keys_of(state) == {"b", "c"}
    assert (state.version, state.count) == (1, 2)


def test_the_same_file_with_another_vector_is_another_file() -> None:
    before = advance(LogState(), [commit(add("a"), add("b"))])
    after = advance(before, [commit(remove("a"), add("a", vector("x")), version=1)])
    assert keys_of(after) == {"a\0ux@1", "b"}
    again = advance(after, [commit(remove("a", vector("x")), add("a", vector("x", offset=9)), version=2)])
    assert keys_of(again) == {"a\0ux@9", "b"}


def test_removing_a_file_without_its_vector_keeps_the_one_with_it() -> None:
    state = advance(LogState(), [commit(add("a", vector("x"))), commit(remove("a"), version=1)])
    assert keys_of(state) == {"a\0ux@1"}


def test_vectors_with_and_without_an_offset_are_different() -> None:
    state = advance(LogState(), [commit(add("a", vector("x", offset=None)))])
    assert keys_of(advance(state, [commit(remove("a", vector("x", offset=1)), version=1)])) == {"a\0ux"}
    assert keys_of(advance(state, [commit(remove("a", vector("x", offset=None)), version=1)])) == set()


def test_a_file_that_is_added_again_has_the_values_of_the_last_add() -> None:
    state = advance(LogState(), [commit(add("a", size=1), add("b")), commit(add("a", size=2), version=1)])
    assert sorted((file.path, file.size) for file in to_files(state.files())) == [("a", 2), ("b", 1)]


@pytest.mark.parametrize(
    ("files", "expected"),
    [((add("a"), remove("a")), set()), ((remove("a"), add("a")), {"a"})],
)
def test_the_last_action_of_a_commit_on_a_file_wins(
    files: tuple[AddFile | RemoveFile, ...], expected: set[str]
) -> None:
    assert keys_of(advance(LogState(), [commit(*files)])) == expected


def test_building_a_newer_version_does_not_change_the_older_one() -> None:
    old = advance(LogState(), [commit(*(add(f"{n}") for n in range(100)))])
    new = advance(old, [commit(*(remove(f"{n}") for n in range(90)), add("new"), version=1)])
    assert (old.count, new.count) == (100, 11)
    assert keys_of(old) == {f"{n}" for n in range(100)}


def test_many_small_commits_do_not_create_many_slabs() -> None:
    state = LogState()
    for version in range(1_000):
        state = advance(state, [commit(add(f"{version}"), version=version)])
    assert state.count == 1_000
    assert len(state.parts) <= 11


def test_a_slab_of_mostly_removed_files_releases_its_memory() -> None:
    state = advance(LogState(), [commit(*(add(f"{n:0100}") for n in range(1_000)))])
    full = sum(part.slab.nbytes for part in state.parts)
    reduced = advance(state, [commit(*(remove(f"{n:0100}") for n in range(900)), version=1)])
    assert sum(part.slab.nbytes for part in reduced.parts) < full / 5


KEYS = st.tuples(st.sampled_from("abcdef"), st.sampled_from([None, "x", "y"]))
COMMITS = st.lists(st.lists(st.tuples(st.booleans(), KEYS), max_size=6), max_size=12)


@given(COMMITS, st.integers(1, 4))
def test_replay_equals_a_set_of_keys(commits: list[list[tuple[bool, tuple[str, str | None]]]], stride: int) -> None:
    model: set[str] = set()
    parsed: list[Commit] = []
    for version, actions in enumerate(commits):
        files: list[AddFile | RemoveFile] = []
        for is_add, (path, name) in actions:
            dv = None if name is None else vector(name)
            files.append(add(path, dv) if is_add else remove(path, dv))
            (model.add if is_add else model.discard)(key_of(files[-1]))
        parsed.append(commit(*files, version=version))
    state = LogState()
    for start in range(0, len(parsed), stride):
        state = advance(state, parsed[start : start + stride])
    assert keys_of(state) == model
    assert state.count == len(model)


def test_the_latest_version_of_an_application_wins_even_if_it_is_lower() -> None:
    def txn(version: int) -> Commit:
        return Commit(version=0, transactions=(SetTransaction(app_id="a", version=version),))

    assert advance(LogState(), [txn(5), txn(3)]).transactions["a"].version == 3


def test_a_removed_domain_is_absent_until_it_is_set_again() -> None:
    def domain(text: str, *, removed: bool = False) -> Commit:
        return Commit(version=0, domains=(DomainMetadata("d", text, removed),))

    state = advance(LogState(), [domain("1"), domain("1", removed=True)])
    assert state.domains == {}
    assert advance(state, [domain("2")]).domains["d"].configuration == "2"


def test_only_the_commit_info_of_the_version_itself_is_kept() -> None:
    first = Commit(version=0, commit_info={"operation": "WRITE"})
    assert advance(LogState(), [first]).commit_info == {"operation": "WRITE"}
    assert advance(LogState(), [first, Commit(version=1)]).commit_info is None


FULL_ADD = {
    "path": "day=1/x%20y.parquet",
    "partitionValues": {"day": "1", "hour": None},
    "size": 7,
    "modificationTime": 8,
    "dataChange": False,
    "stats": '{"numRecords":1}',
    "tags": {"t": "u", "v": None},
    "deletionVector": {
        "storageType": "p",
        "pathOrInlineDv": "s3://b/x",
        "offset": 4,
        "sizeInBytes": 40,
        "cardinality": 6,
    },
    "baseRowId": 100,
    "defaultRowCommitVersion": 3,
    "clusteringProvider": "liquid",
}


def test_every_field_of_an_add_survives_the_conversion_to_columns() -> None:
    (file,) = read_commit(msgspec.json.encode({"add": FULL_ADD}), version=0, source="0.json").adds
    (converted,) = to_files(to_table([file]))
    assert converted == file
    assert msgspec.to_builtins(converted) == FULL_ADD


def test_a_commit_is_read_with_all_its_kinds_of_actions() -> None:
    lines = [
        {"commitInfo": {"inCommitTimestamp": 5, "operation": "MERGE", "operationMetrics": {"n": "1"}}},
        {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["x"], "writerFeatures": ["x"]}},
        {"metaData": {"id": "m", "format": {"provider": "parquet", "options": {}}, "schemaString": "{}",
                      "partitionColumns": ["p"], "configuration": {"k": "v"}, "createdTime": 1}},
        {"txn": {"appId": "a", "version": 1, "lastUpdated": 2}},
        {"domainMetadata": {"domain": "d", "configuration": "{}", "removed": False}},
        {"add": FULL_ADD},
        {"remove": {"path": "gone", "deletionTimestamp": 9, "dataChange": True, "extendedFileMetadata": True,
                    "partitionValues": {"day": None}, "size": 3, "tags": {}}},
        {"cdc": {"path": "_change_data/c", "partitionValues": {}, "size": 2, "dataChange": False}},
        {"somethingNew": {"from": "the future"}},
    ]  # fmt: skip
    read = read_commit(b"\n".join(map(msgspec.json.encode, lines)) + b"\n\n", version=4, source="4.json")
    assert read.in_commit_timestamp == 5
    assert read.protocol is not None
    assert read.protocol.reader_features == ("x",)
    assert read.metadata is not None
    assert read.metadata.configuration == {"k": "v"}
    assert [txn.last_updated for txn in read.transactions] == [2]
    assert [domain.domain for domain in read.domains] == ["d"]
    assert [file.path for file in read.adds] == ["day=1/x%20y.parquet"]
    assert [(file.path, file.size, file.partition_values) for file in read.removes] == [("gone", 3, {"day": None})]
    assert read.cdc == (ChangeFile(path="_change_data/c", partition_values={}, size=2),)


@pytest.mark.parametrize(
    "line",
    [
        b'{"add":{"path":"x"}}',
        b'{"add":{"path":"x","partitionValues":{},"size":-1,"modificationTime":1,"dataChange":true}}',
        b'{"add":{"path":"x","partitionValues":{},"size":99999999999999999999,"modificationTime":1,"dataChange":true}}',
        b'{"remove":5}',
        b'{"add":',
        b"\xff\xfe",
        b"[]",
        b"[" * 100_000,
    ],
)
def test_the_error_for_a_line_that_is_not_an_action_names_file_and_line(line: bytes) -> None:
    with pytest.raises(Damaged, match=r"7\.json is damaged: line 2 is not a Delta action"):
        read_commit(b'{"commitInfo":{}}\n' + line, version=7, source="7.json")


def test_a_large_commit_is_read_in_pieces_that_end_with_a_line() -> None:
    paths = [f"{number:05d}-{'x' * (number % 300)}.parquet" for number in range(5_000)]
    lines = [msgspec.json.encode({"add": {**FULL_ADD, "path": path}}) for path in paths]
    data = b"\n".join(lines)
    read = read_commit(data, version=0, source="0.json")
    assert [file.path for file in read.adds] == paths
    table = to_table(read.adds)
    assert table["path"].to_pylist() == paths
    assert to_files(table.slice(4_000)) == list(read.adds[4_000:])
    with pytest.raises(Damaged, match="line 5001 is not a Delta action"):
        read_commit(data + b"\n[]", version=0, source="0.json")
    long = msgspec.json.encode({"add": {**FULL_ADD, "stats": "x" * 1_000_000}})
    assert len(read_commit(b"\n".join((lines[0], long, lines[1])), version=0, source="0.json").adds) == 3
