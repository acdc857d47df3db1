"""Tables whose first commits are gone: other readers find all rows through a checkpoint that we wrote."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pytest
from deltalake import DeltaTable, PostCommitHookProperties, QueryBuilder, write_deltalake
from msgspec.structs import replace

from moorage.formats.delta.new_checkpoints import NewCheckpoint, new_checkpoint
from moorage.snapshots.parsed_columns import parsed_columns
from moorage.snapshots.snapshot import Snapshot
from moorage.snapshots.snapshots import Snapshots
from moorage.snapshots.table_ref import TableRef
from moorage.storage.local import LocalStorage
from tests.conformance.ducks import duck

NO_HOOKS = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)


def rows(start: int) -> pa.Table:
    """Rows of a partition with a text that needs escaping in a path, and with a null partition."""
    return pa.table(
        {
            "id": pa.array(range(start, start + 4), pa.int64()),
            "port": pa.array(["a b/é%", None, "plain", "plain"], pa.string()),
            "at": pa.array([datetime(1969, 12, 31, 23, 59, start, tzinfo=UTC)] * 4, pa.timestamp("us", "UTC")),
            "nested": pa.array([{"x": start, "y": None}] * 4, pa.struct([("x", pa.int64()), ("y", pa.string())])),
        }
    )


def grown(path: Path) -> list[dict[str, object]]:
    for start in range(0, 40, 10):
        write_deltalake(path, rows(start), mode="append", partition_by=["port"], post_commithook_properties=NO_HOOKS)
    DeltaTable(path).delete("id = 11", post_commithook_properties=NO_HOOKS)
    found: list[dict[str, object]] = DeltaTable(path).to_pyarrow_table().sort_by("id").to_pylist()
    return found


def snapshot_of(path: Path) -> Snapshot:
    ref = TableRef(id="t", location=path.as_uri() + "/")
    return asyncio.run(Snapshots(LocalStorage(path.parent)).at(ref))


def write_only_checkpoint(path: Path, made: NewCheckpoint) -> None:
    """Leave the checkpoint, and the commit of its own version."""
    for new in (*made.sidecars, made.main):
        (path / new.path).parent.mkdir(exist_ok=True)
        (path / new.path).write_bytes(new.data)
    (path / "_delta_log" / "_last_checkpoint").write_bytes(made.hint)
    for file in (path / "_delta_log").glob("*.json"):
        if int(file.stem) < made.version:
            file.unlink()


def add_feature(path: Path) -> None:
    """Give the table the feature of v2 checkpoints, which deltalake reads and does not add."""
    first = path / "_delta_log" / f"{0:020}.json"
    actions = [json.loads(line) for line in first.read_text().splitlines()]
    for action in actions:
        if "protocol" in action:
            features = {"readerFeatures": ["v2Checkpoint"], "writerFeatures": ["v2Checkpoint"]}
            action["protocol"] = {"minReaderVersion": 3, "minWriterVersion": 7, **features}
    first.write_text("\n".join(map(json.dumps, actions)) + "\n")


@pytest.mark.parametrize("v2", [True, False], ids=["v2", "classic"])
def test_other_readers_read_all_rows_through_the_checkpoint(tmp_path: Path, *, v2: bool) -> None:
    path = tmp_path / "table"
    expected = grown(path)
    if v2:
        add_feature(path)
    found = snapshot_of(path)
    asking = replace(found.metadata, configuration={"delta.checkpoint.writeStatsAsStruct": "true"})
    parsed = parsed_columns(found.state.files(), found.schema, asking)
    assert set(parsed) == {"stats_parsed", "partitionValues_parsed"}
    made = new_checkpoint(found.state, (), now_ms=1, new_id=lambda: str(uuid4()), parsed=parsed)
    assert bool(made.sidecars) == v2
    write_only_checkpoint(path, made)

    query = QueryBuilder().register("t", DeltaTable(path))
    assert pa.table(query.execute("SELECT * FROM t ORDER BY id")).to_pylist() == expected
    with duck("delta") as db:
        read = db.execute("select id, port, nested from delta_scan(?) order by id", [str(path)]).fetchall()
        some = db.execute("select id from delta_scan(?) where id > 30 and port = 'plain'", [str(path)]).fetchall()
    assert read == [(row["id"], row["port"], row["nested"]) for row in expected]
    assert sorted(some) == [(32,), (33,)]
    assert snapshot_of(path).count == made.files


def test_parsed_columns_have_the_values_of_the_texts(tmp_path: Path) -> None:
    path = tmp_path / "table"
    grown(path)
    found = snapshot_of(path)
    files = found.state.files()
    asking = replace(found.metadata, configuration={"delta.checkpoint.writeStatsAsStruct": "true"})
    parsed = parsed_columns(files, found.schema, asking)
    for text, statistics, texts, values in zip(
        files["stats"].to_pylist(),
        parsed["stats_parsed"].to_pylist(),
        files["partitionValues"].to_pylist(maps_as_pydicts="strict"),
        parsed["partitionValues_parsed"].to_pylist(),
        strict=True,
    ):
        stated = json.loads(text)
        assert statistics["numRecords"] == stated["numRecords"]
        assert statistics["minValues"]["id"] == stated["minValues"]["id"]
        assert statistics["maxValues"]["nested"]["x"] == stated["maxValues"]["nested"]["x"]
        assert statistics["nullCount"]["nested"]["y"] == stated["nullCount"]["nested"]["y"]
        assert statistics["minValues"]["at"].year == 1969
        assert values == texts
    assert parsed_columns(files, found.schema, found.metadata) == {}
