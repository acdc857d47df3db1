"""Commits and offers that are checked in another process have the same outcomes as small ones."""

from __future__ import annotations

import json
import os
import signal
from typing import Any

import httpx
import psutil
import pytest

from moorage.snapshots.snapshot import Snapshot
from moorage.testing import delta_writer as write
from tests.api.delta.delta_client import TABLES, DeltaClient, Staged, ok
from tests.api.delta.test_expiry import NOW, lease
from tests.api.house import V1, House

FILES = 40
LONG = 40_000
"""Characters in the statistics of a file, so that forty files make more than a megabyte."""


def file(number: int, **more: Any) -> dict[str, Any]:
    stats = {"numRecords": 10, "maxValues": {"id": "x" * LONG}}
    return write.add(f"p%20{number}.parquet", size=1000, stats=json.dumps(stats), **more)


async def large_table(client: DeltaClient) -> Staged:
    table = await client.make(properties=NOW)
    ok(await client.commit(table, table.stage(1, *map(file, range(FILES)))))
    return table


async def offered(
    house: House, client: DeltaClient, table: Staged, *, rows: int = 10 * FILES, before: Any = None
) -> tuple[dict[str, Any], httpx.Response]:
    """Do what Spark does in a shadow, and offer it."""
    _, header = await lease(house, "compact", beside_writers=True)
    shadow = ok(await client.http.post(f"{V1}/tables/{table.id}/shadows", headers=header))["shadow"]
    log = table.folder / shadow["folder"] / "_delta_log"
    first = [json.loads(line) for line in (log / f"{0:020}.json").read_text().splitlines()]
    inputs = [line["add"] for line in first if "add" in line]
    (log.parent / "new.parquet").write_bytes(b"x" * 500)
    added = write.add("new.parquet", size=500, dataChange=False, stats=json.dumps({"numRecords": rows}))
    removed = [
        {"remove": {"path": each["path"], "dataChange": False, "deletionTimestamp": 1, "stats": each["stats"]}}
        for each in inputs
    ]
    info = write.commit_info(1, "OPTIMIZE", operationParameters={"predicate": "[]"})
    (log / f"{1:020}.json").write_bytes(write.lines(info, added, *removed))
    if before is not None:
        await before()
    body = {"folder": shadow["folder"], "base_version": shadow["base_version"]}
    return shadow, await client.http.post(f"{V1}/tables/{table.id}/offers", headers=header, json=body)


async def test_the_offer_of_a_large_rewrite_becomes_the_next_version(house: House, spec: DeltaClient) -> None:
    table = await large_table(spec)
    shadow, answer = await offered(house, spec, table)
    assert (shadow["files"], shadow["bytes"], shadow["remaining_files"]) == (FILES, 1000 * FILES, 0)
    result = ok(answer)
    figures = {"files_removed": FILES, "bytes_removed": 1000 * FILES, "files_added": 1, "bytes_added": 500}
    assert (result["outcome"], result["version"], result["rewritten"]) == ("committed", 2, figures)
    (left,) = ok(await spec.http.get(f"{TABLES}/t/files"))["files"]
    assert (left["path"], left["size"]) == (f"{shadow['folder']}new.parquet", 500)
    (staged,) = (table.folder / "_delta_log/_staged_commits").glob(f"{2:020}.*.json")
    actions = [json.loads(line) for line in staged.read_text().splitlines()]
    assert [next(iter(action)) for action in actions] == ["commitInfo", "add", *["remove"] * FILES]
    assert [action["remove"]["path"] for action in actions[2:]] == [f"p%20{n}.parquet" for n in range(FILES)]


async def test_a_large_rewrite_that_loses_rows_is_refused(house: House, spec: DeltaClient) -> None:
    table = await large_table(spec)
    _, answer = await offered(house, spec, table, rows=399)
    assert (answer.status_code, answer.json()["error"]["field"]) == (400, "folder"), answer.text
    assert "had 400 rows and have 399 now" in answer.json()["error"]["message"]


async def test_a_large_rewrite_of_a_file_that_was_removed_meanwhile_is_dropped(house: House, spec: DeltaClient) -> None:
    table = await large_table(spec)

    async def remove_one() -> None:
        ok(await spec.commit(table, table.stage(2, write.remove("p%207.parquet"))))

    _, answer = await offered(house, spec, table, before=remove_one)
    assert ok(answer)["outcome"] == "dropped"
    assert ok(answer)["reason"] == "'p 7.parquet' is no longer a file of the table"


async def test_an_offer_survives_the_end_of_the_process_that_checks_it(house: House, spec: DeltaClient) -> None:
    table = await large_table(spec)

    async def kill_processes() -> None:
        found = [child for child in psutil.Process().children() if "moorage.processes.worker" in child.cmdline()]
        assert found
        for child in found:
            os.kill(child.pid, signal.SIGKILL)

    _, answer = await offered(house, spec, table, before=kill_processes)
    assert ok(answer)["outcome"] == "committed"


@pytest.mark.parametrize("count", [1, FILES])
async def test_a_commit_is_refused_for_the_same_reason_whatever_its_size(spec: DeltaClient, count: int) -> None:
    table = await spec.make()
    outside = write.add("s3://elsewhere/a.parquet")
    refused = await spec.commit(table, table.stage(1, *map(file, range(count)), outside))
    assert refused.status_code == 400, refused.text
    assert "the add of 's3://elsewhere/a.parquet' is outside the table" in refused.text
    unnamed = write.metadata({}, columns=write.COLUMNS)
    refused = await spec.commit(table, table.stage(1, *map(file, range(count)), unnamed))
    assert (refused.status_code, "io.unitycatalog.tableId" in refused.text) == (400, True), refused.text


async def test_a_table_can_be_created_with_many_files(spec: DeltaClient) -> None:
    await spec.make("t", *map(file, range(FILES)))
    assert len(ok(await spec.http.get(f"{TABLES}/t/files"))["files"]) == FILES


async def test_the_offer_of_an_append_reads_no_file_of_the_table(
    house: House, spec: DeltaClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table may have a million files, and other writers wait for the offer."""
    table = await spec.make()
    ok(await spec.commit(table, table.stage(1, write.add("old.parquet"))))
    shadow = ok(await spec.http.post(f"{TABLES}/t/shadows", json={"with-files": False}))
    folder = table.folder / shadow["folder"]
    (folder / "new.parquet").write_bytes(b"x" * 500)
    added = write.add("new.parquet", size=500)
    (folder / "_delta_log" / f"{1:020}.json").write_bytes(write.lines(write.commit_info(1), added))
    for file in (folder / "_delta_log").iterdir():
        os.utime(file, (house.clock() / 1000, house.clock() / 1000))
    read: list[int] = []
    select = Snapshot.select

    def spy(snapshot: Snapshot, where: Any = None) -> Any:
        read.append(snapshot.version)
        return select(snapshot, where)

    monkeypatch.setattr(Snapshot, "select", spy)
    body = {"folder": shadow["folder"], "base-version": shadow["base-version"]}
    assert ok(await spec.http.post(f"{TABLES}/t/offers", json=body))["outcome"] == "committed"
    assert not read
    monkeypatch.undo()
    paths = [each["path"] for each in ok(await spec.http.get(f"{TABLES}/t/files"))["files"]]
    assert sorted(paths) == sorted(["old.parquet", f"{shadow['folder']}new.parquet"])
