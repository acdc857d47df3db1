"""Checkpoints: their content in every layout, and files that are not checkpoints."""

from __future__ import annotations

import io
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from moorage.core.errors import Damaged
from moorage.formats.delta.checkpoints import read_json, read_parquet, state_of
from moorage.formats.delta.replay import FILES, to_files
from tests.snapshots.log_builder import ADD, PROTOCOL, Action, add, lines, metadata, parquet, remove, statistics, vector

ACTIONS: list[Action] = [
    PROTOCOL,
    add("a", stats=statistics(id=(1, 9, 0)), tags={"k": None}),
    remove("gone"),
    add("b", deletionVector=vector("x", offset=3), baseRowId=7, defaultRowCommitVersion=2, clusteringProvider="liquid"),
    metadata(),
    {"txn": {"appId": "app", "version": 4}},
    {"domainMetadata": {"domain": "d", "configuration": "{}", "removed": False}},
]


@pytest.mark.parametrize("read", [lambda: read_parquet(parquet(ACTIONS), "c"), lambda: read_json(lines(ACTIONS), "c")])
def test_a_checkpoint_has_the_same_content_in_parquet_and_in_json(read: Any) -> None:
    piece = read()
    files = to_files(piece.files)
    assert [file.path for file in files] == ["a", "b"]
    assert msgspec.to_builtins(files[1]) == ACTIONS[3]["add"]
    assert files[0].tags == {"k": None}
    assert piece.protocol.min_writer_version == 2
    assert msgspec.to_builtins(piece.metadata)["schemaString"] == ACTIONS[4]["metaData"]["schemaString"]
    assert [(txn.app_id, txn.version, txn.last_updated) for txn in piece.transactions] == [("app", 4, None)]
    assert [domain.domain for domain in piece.domains] == ["d"]


def test_adds_between_other_actions_are_all_found() -> None:
    mixed = [action for number in range(500) for action in (add(f"{number}"), remove(f"r{number}"))]
    piece = read_parquet(parquet(mixed), "c")
    assert [file.path for file in to_files(piece.files)] == [f"{number}" for number in range(500)]


def test_a_column_that_an_older_writer_did_not_write_is_null() -> None:
    old = pa.struct(
        [field for field in ADD if field.name in ("path", "partitionValues", "size", "modificationTime", "dataChange")]
    )
    piece = read_parquet(parquet([add("a")], add=old), "c")
    assert piece.files.schema == FILES
    assert to_files(piece.files)[0].base_row_id is None


def test_a_deletion_vector_with_other_fields_keeps_the_known_ones() -> None:
    newer = pa.struct([("cardinality", pa.int64()), ("maxRowIndex", pa.int64()), ("storageType", pa.string()),
                       ("pathOrInlineDv", pa.string()), ("sizeInBytes", pa.int32())])  # fmt: skip
    shape = pa.struct([pa.field(field.name, newer if field.name == "deletionVector" else field.type) for field in ADD])
    piece = read_parquet(parquet([add("a", deletionVector=vector("x", maxRowIndex=9)), add("b")], add=shape), "c")
    first, second = to_files(piece.files)
    assert first.deletion_vector is not None
    assert (first.deletion_vector.unique_id, first.deletion_vector.cardinality) == ("u" + "x".rjust(20, "0"), 2)
    assert second.deletion_vector is None


def test_a_piece_of_a_checkpoint_may_have_no_files() -> None:
    assert read_parquet(parquet([PROTOCOL], columns=("protocol",)), "c").files.num_rows == 0
    assert read_parquet(parquet([]), "c").files.num_rows == 0


PARSED = {
    "numRecords": 3,
    "tightBounds": True,
    "minValues": {
        "d": date(2024, 1, 2),
        "t": datetime(2024, 1, 2, 3, 4, 5, 6000, UTC),
        "m": Decimal("1.50"),
        "s": None,
    },
    "maxValues": {"d": date(2024, 2, 2), "t": datetime(2024, 2, 2, tzinfo=UTC), "m": Decimal("9.99"), "s": "z"},
    "nullCount": {"d": 0, "t": 0, "m": 1, "s": 2},
}
BOUNDS = pa.struct(
    [("d", pa.date32()), ("t", pa.timestamp("us", "UTC")), ("m", pa.decimal128(10, 2)), ("s", pa.string())]
)
STATS_PARSED = pa.struct(
    [
        ("numRecords", pa.int64()),
        ("tightBounds", pa.bool_()),
        ("minValues", BOUNDS),
        ("maxValues", BOUNDS),
        ("nullCount", pa.struct([(name, pa.int64()) for name in "dtms"])),
    ]
)


@pytest.mark.parametrize("with_json", [True, False])
def test_statistics_that_exist_only_parsed_are_converted_to_json(*, with_json: bool) -> None:
    fields = [field for field in ADD if with_json or field.name != "stats"]
    shape = pa.struct([*fields, pa.field("stats_parsed", STATS_PARSED)])
    piece = read_parquet(parquet([PROTOCOL, add("a", stats_parsed=PARSED), add("b")], add=shape), "c")
    first, second = to_files(piece.files)
    assert first.stats is not None
    assert msgspec.json.decode(first.stats) == {
        "numRecords": 3,
        "tightBounds": True,
        "minValues": {"d": "2024-01-02", "t": "2024-01-02T03:04:05.006Z", "m": 1.5},
        "maxValues": {"d": "2024-02-02", "t": "2024-02-02T00:00:00.000Z", "m": 9.99, "s": "z"},
        "nullCount": {"d": 0, "t": 0, "m": 1, "s": 2},
    }
    assert second.stats is None


def test_statistics_in_json_take_precedence_over_parsed_ones() -> None:
    shape = pa.struct([*ADD, pa.field("stats_parsed", STATS_PARSED)])
    data = parquet([add("a", stats="{}", stats_parsed=PARSED), add("b", stats_parsed=PARSED)], add=shape)
    first, second = to_files(read_parquet(data, "c").files)
    assert first.stats == "{}"
    assert second.stats != "{}"


def test_the_pieces_of_a_checkpoint_are_joined_into_one_state() -> None:
    pieces = [read_parquet(parquet(part), "c") for part in (ACTIONS[:3], ACTIONS[3:])]
    state = state_of(9, pieces, "c")
    assert (state.version, state.count) == (9, 2)
    assert set(state.transactions) == {"app"}
    assert set(state.domains) == {"d"}


def test_a_checkpoint_without_metadata_is_damaged() -> None:
    with pytest.raises(Damaged, match="c is damaged: it lacks protocol or metaData"):
        state_of(9, [read_parquet(parquet(ACTIONS[:3]), "c")], "c")


def _table(**columns: Any) -> bytes:
    stream = io.BytesIO()
    pq.write_table(pa.table(columns), stream)
    return stream.getvalue()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no parquet",
        parquet(ACTIONS)[:-1],
        parquet(ACTIONS)[:200] + bytes(200) + parquet(ACTIONS)[400:],
        _table(add=["a", "b"]),
        _table(add=[{"path": "a", "size": 1}]),
        _table(protocol=[{"minReaderVersion": "three"}]),
        _table(metaData=[{"id": None}]),
        _table(txn=[{"appId": "a", "version": "x"}]),
        parquet([add("no-text")]).replace(b"no-text", b"no\x80text"),
    ],
)
def test_bytes_that_are_not_a_checkpoint_are_damaged(data: bytes) -> None:
    with pytest.raises(Damaged, match="c is damaged"):
        read_parquet(data, "c")


def test_an_add_without_a_size_is_damaged() -> None:
    with pytest.raises(Damaged, match="an add has no size"):
        read_parquet(parquet([add("a", size=None)]), "c")
