"""Which data files a vacuum of a managed Delta table deletes: never one that an available version names."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from msgspec.structs import force_setattr

from moorage.snapshots.snapshots import Snapshots
from moorage.testing import delta_writer as write
from tests.api.delta.delta_client import DeltaClient, Staged, ok
from tests.api.delta.test_expiry import DAY_MS, NOW, expire, lease, work
from tests.api.house import V1, House

STATS = json.dumps({"numRecords": 1})


@pytest.fixture(autouse=True)
def later(house: House) -> None:
    """All commits are a day old, and nothing that was handed out is still in use."""
    house.clock.advance(DAY_MS)
    force_setattr(house.ports, "min_deletion_delay_ms", 0)
    force_setattr(house.ports, "share_url_lifetime_ms", 0)


def write_old_files(folder: Path, names: Iterable[str]) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"PAR1")
        os.utime(folder / name, (1, 1))


async def vacuum(house: House, client: DeltaClient, table: Staged) -> Any:
    await expire(house, client, table)
    return await work(house, client, table, "vacuum", "deletion", enqueue=False)


async def test_files_are_kept_in_whatever_form_the_log_names_them(house: House, spec: DeltaClient) -> None:
    table = await spec.make(properties={**NOW, "delta.enableChangeDataFeed": "true"})
    needed = ["plain.parquet", "upper.parquet", "d=a%3Ab/x y.parquet", "vector.bin", "_change_data/c.parquet"]
    write_old_files(table.folder, [*needed, "unneeded.parquet"])
    place = {"storageType": "p", "pathOrInlineDv": f"FILE:{table.folder}/vector.bin"}
    vector = {**place, "offset": 1, "sizeInBytes": 4, "cardinality": 1}
    adds = [
        write.add(f"file://{table.folder}/plain.parquet", size=4, stats=STATS),
        write.add(f"FILE:{table.folder}/upper.parquet", size=4, stats=json.dumps({"numRecords": 2})),
        write.add("d=a%253Ab/x%20y.parquet", size=4, stats=json.dumps({"numRecords": 2}), deletionVector=vector),
    ]
    change = {"path": f"{table.folder}/_change_data/c.parquet", "partitionValues": {}, "size": 4, "dataChange": False}
    ok(await spec.commit(table, table.stage(1, *adds)))
    house.clock.advance(DAY_MS)
    await expire(house, spec, table)
    ok(await spec.commit(table, table.stage(2, {"cdc": change}, write.add("plain.parquet", size=4, stats=STATS))))
    found = await work(house, spec, table, "vacuum", "deletion", enqueue=False)
    left = {str(path.relative_to(table.folder)) for path in table.folder.rglob("*") if path.is_file()}
    assert left.issuperset(needed)
    assert (found["files"], "unneeded.parquet" in left) == (1, False)


async def test_nothing_is_deleted_by_a_checkpoint_that_differs_from_the_log(house: House, spec: DeltaClient) -> None:
    table = await spec.make(properties=NOW)
    names = [f"{number}.parquet" for number in range(3)]
    write_old_files(table.folder, [*names, "unneeded.parquet"])
    for version, name in enumerate(names, 1):
        ok(await spec.commit(table, table.stage(version, write.add(name, size=4, stats=STATS))))
    await work(house, spec, table, "checkpoint", "checkpoint")
    (sidecar,) = (table.folder / "_delta_log" / "_sidecars").iterdir()
    pq.write_table(pq.read_table(sidecar).slice(1), sidecar)  # a client wrote it without one of the files
    force_setattr(house.ports, "snapshots", Snapshots(house.ports.storage))  # the server was started again
    await expire(house, spec, table)
    _, header = await lease(house, "vacuum", enqueue=False)
    refused = await spec.http.post(f"{V1}/tables/{table.id}/deletion", headers=header)
    assert "differs from the log in its files" in refused.text
    assert {path.name for path in table.folder.glob("*.parquet")} == {*names, "unneeded.parquet"}
