"""New checkpoints: reading one gives back the state that it was made of, in every layout."""

from __future__ import annotations

from itertools import count

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from moorage.formats.delta import new_checkpoints
from moorage.formats.delta.checkpoints import read_parquet, state_of
from moorage.formats.delta.file_actions import RemoveFile
from moorage.formats.delta.log_commits import read_commit
from moorage.formats.delta.new_checkpoints import NewCheckpoint, add_tombstones, new_checkpoint, read_tombstones
from moorage.formats.delta.replay import LogState, advance, to_files
from tests.snapshots.log_builder import Action, add, lines, metadata, remove, statistics, vector

NEWEST = {
    "minReaderVersion": 3,
    "minWriterVersion": 7,
    "readerFeatures": ["v2Checkpoint", "deletionVectors"],
    "writerFeatures": ["v2Checkpoint", "deletionVectors", "appendOnly"],
}
ACTIONS: list[Action] = [
    {"protocol": NEWEST},
    metadata(),
    add("a%20b", stats=statistics(id=(1, 9, 0)), tags={"k": None}, partitionValues={"p": None}),
    add("b", deletionVector=vector("x", offset=3), baseRowId=7, defaultRowCommitVersion=2, clusteringProvider="liquid"),
    {"txn": {"appId": "app", "version": 4, "lastUpdated": 5}},
    {"domainMetadata": {"domain": "d", "configuration": "{}", "removed": False}},
]


def state(*more: Action) -> LogState:
    return advance(LogState(), [read_commit(lines([*ACTIONS, *more]), version=3, source="c")])


def written(of: LogState, *removed: RemoveFile) -> NewCheckpoint:
    ids = count(1)
    return new_checkpoint(of, removed, now_ms=99, new_id=lambda: f"id{next(ids)}")


def read_back(made: NewCheckpoint) -> LogState:
    pieces = [read_parquet(file.data, file.path) for file in (made.main, *made.sidecars)]
    return state_of(made.version, pieces, made.main.path)


def classic(of: LogState) -> LogState:
    assert of.metadata is not None
    return replace(of, metadata=replace(of.metadata, configuration={"delta.checkpointPolicy": "classic"}))


@pytest.mark.parametrize("of", [state(), classic(state())], ids=["v2", "classic"])
def test_a_checkpoint_has_the_state_that_it_was_made_of(of: LogState) -> None:
    found = read_back(written(of))
    assert (found.version, found.protocol, found.metadata) == (3, of.protocol, of.metadata)
    assert (found.transactions, found.domains) == (of.transactions, of.domains)
    unchanged = [replace(file, data_change=False) for file in to_files(of.files())]
    assert to_files(found.files()) == unchanged


def test_a_v2_checkpoint_has_its_files_in_sidecars_of_bounded_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(new_checkpoints, "SIDECAR_ROWS", 10)
    of = state(*(add(f"{number}") for number in range(23)))
    made = written(of)
    rows = [pq.ParquetFile(pa.BufferReader(file.data)).metadata.num_rows for file in made.sidecars]
    assert rows == [10, 10, 5]
    piece = read_parquet(made.main.data, made.main.path)
    assert [f"_delta_log/_sidecars/{each.path}" for each in piece.sidecars] == [file.path for file in made.sidecars]
    assert [each.size_in_bytes for each in piece.sidecars] == [len(file.data) for file in made.sidecars]
    assert read_back(made).count == 25


def test_the_hint_names_the_checkpoint() -> None:
    made = written(state())
    hint = msgspec.json.decode(made.hint)
    assert (made.main.path, hint["v2Checkpoint"]["path"]) == (
        "_delta_log/00000000000000000003.checkpoint.id2.parquet",
        "00000000000000000003.checkpoint.id2.parquet",
    )
    assert (hint["version"], hint["size"], hint["numOfAddFiles"]) == (3, 8, 2)
    assert written(classic(state())).main.path == "_delta_log/00000000000000000003.checkpoint.parquet"
    assert "v2Checkpoint" not in msgspec.json.decode(written(classic(state())).hint)


def test_a_protocol_without_features_has_none_in_the_checkpoint() -> None:
    of = advance(
        LogState(),
        [
            read_commit(
                lines([{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, metadata()]), version=0, source="c"
            )
        ],
    )
    made = written(of)
    assert made.sidecars == ()
    rows = pq.read_table(pa.BufferReader(made.main.data), columns=["protocol"])["protocol"].to_pylist()
    assert rows[0] == {"minReaderVersion": 1, "minWriterVersion": 2, "readerFeatures": None, "writerFeatures": None}


def test_removed_files_stay_as_tombstones_until_they_expire() -> None:
    first = read_commit(
        lines([remove("old", deletionTimestamp=10), remove("new", deletionTimestamp=30)]), version=1, source="c"
    )
    again = read_commit(
        lines([add("new"), remove("last", deletionTimestamp=40, deletionVector=vector("x"))]), version=2, source="c"
    )
    found = add_tombstones({}, [first, again], oldest_ms=20)
    assert [file.path for file in found.values()] == ["last"]
    made = written(state(), *found.values())
    kept = {key: file for each in made.sidecars for key, file in read_tombstones(each.data, each.path).items()}
    assert kept == {key: replace(file, data_change=False) for key, file in found.items()}
    assert read_back(made).count == 2
