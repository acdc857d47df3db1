"""Statistics that the server adds to files of a managed table: read in the files, committed beside other writers."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from moorage.core.jobs import STATISTICS
from moorage.core.quiet import QUIET_MS
from moorage.storage.local import LocalStorage
from moorage.testing import delta_writer as write
from moorage.usecases.delta import statistics
from moorage.usecases.delta.format import DeltaFormat
from moorage.usecases.upkeep.autopilot import look_after_tables
from tests.api.delta.delta_client import TABLES, DeltaClient, Staged, ok
from tests.api.delta.test_expiry import lease
from tests.api.house import V1, House


def file(table: Staged, name: str, ids: list[int | None], **more: Any) -> dict[str, Any]:
    """Write a data file, and return an add action without statistics."""
    pq.write_table(pa.table({"id": pa.array(ids, pa.int64())}), table.folder / name)
    return write.add(name, size=(table.folder / name).stat().st_size, **more)


async def files_of(client: DeltaClient) -> dict[str, dict[str, Any]]:
    files: list[dict[str, Any]] = ok(await client.http.get(f"{TABLES}/t/files"))["files"]
    return {each["path"]: each for each in files}


async def step(house: House, client: DeltaClient, table: Staged) -> dict[str, Any]:
    _, header = await lease(house, "statistics", beside_writers=True)
    found: dict[str, Any] = ok(await client.http.post(path_of(table), headers=header, json={"after": None}))
    id, fence = header["moorage-job"].split(";fence=")
    ok(await house.console.post(f"/jobs/{id}:succeed", {"fence": fence, "result": {}}))
    return found


def path_of(table: Staged) -> str:
    return f"{V1}/tables/{table.id}/statistics"


async def test_files_without_statistics_get_those_of_their_footers(house: House, spec: DeltaClient) -> None:
    table = await spec.make()
    vector = {"storageType": "u", "pathOrInlineDv": "x" * 20, "offset": 1, "sizeInBytes": 40, "cardinality": 1}
    stated = write.add("stated.parquet", stats=json.dumps({"numRecords": 7}))
    bare = [file(table, "a.parquet", [3, None, 5]), file(table, "b %25.parquet", [9, 8], deletionVector=vector)]
    bare[1]["add"]["path"] = "b%20%2525.parquet"
    gone = write.add("gone.parquet")
    ok(await spec.commit(table, table.stage(1, *bare, stated, gone)))
    before = await files_of(spec)
    found = await step(house, spec, table)
    assert (found["missing"], found["files"], found["unreadable"], found["version"]) == (3, 2, 1, 2)
    after = await files_of(spec)
    texts = {path: json.loads(each.pop("stats")) for path, each in after.items() if "stats" in each}
    expected = {"numRecords": 3, "minValues": {"id": 3}, "maxValues": {"id": 5}, "nullCount": {"id": 1}}
    assert texts["a.parquet"] == {**expected, "tightBounds": True}
    assert (texts["b%20%2525.parquet"]["numRecords"], texts["b%20%2525.parquet"]["tightBounds"]) == (2, False)
    assert texts["stated.parquet"] == {"numRecords": 7}
    for each in (*before.values(), *after.values()):
        each.pop("stats", None)
        each.pop("dataChange", None)
    assert after == before, "nothing but the statistics changed"
    again = await step(house, spec, table)
    assert (again["missing"], again["files"], again["version"]) == (1, 0, None)


async def test_a_file_that_was_removed_meanwhile_is_not_added_again(
    house: House, spec: DeltaClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = await spec.make()
    ok(await spec.commit(table, table.stage(1, file(table, "a.parquet", [1]), file(table, "b.parquet", [2]))))
    read_range = LocalStorage.read_range
    removed: list[str] = []

    async def remove_first(self: Any, root: str, path: str, **given: Any) -> bytes | None:
        if not removed:
            removed.append(path)
            ok(await spec.commit(table, table.stage(2, write.remove("a.parquet"))))
        return await read_range(self, root, path, **given)

    monkeypatch.setattr(LocalStorage, "read_range", remove_first)
    found = await step(house, spec, table)
    assert (found["files"], found["version"]) == (1, 3)
    (left,) = (await files_of(spec)).values()
    assert (left["path"], json.loads(left["stats"])["numRecords"]) == ("b.parquet", 1)


async def test_many_files_are_read_in_several_steps(
    house: House, spec: DeltaClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statistics, "STEP_FILES", 2)
    table = await spec.make()
    ok(await spec.commit(table, table.stage(1, *(file(table, f"{n}.parquet", [n]) for n in range(5)))))
    found, header = await lease(house, "statistics")
    after, added, path = None, [], path_of(table)
    while True:
        done = ok(await spec.http.post(path, headers=header, json={"after": after}))
        added.append(done["files"])
        if (after := done["after"]) is None:
            break
    assert added == [2, 2, 1]
    assert all("stats" in each for each in (await files_of(spec)).values())
    ok(await house.console.post(f"/jobs/{found['job']['id']}:cancel", {}))
    refused = await spec.http.post(path, headers=header, json={"after": None})
    assert refused.status_code == 409, refused.text


async def test_the_server_requests_statistics_and_waits_for_writers_that_change_rows(
    house: House, spec: DeltaClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DeltaFormat, "job_kinds", frozenset({STATISTICS}))
    table = await spec.make()
    bare = [file(table, f"{n}.parquet", [n]) for n in range(20)]
    ok(await spec.commit(table, table.stage(1, *bare)))
    ok(await spec.commit(table, table.stage(2, write.remove("0.parquet"))))
    ok(await spec.http.patch(f"{V1}/catalogs/lake", json={"set_properties": {"moorage.upkeep.policy": "auto"}}))
    assert await look_after_tables(house.ports) == 1
    taken, header = await lease(house, "statistics", enqueue=False)
    assert "19 of 19 files have no statistics" in taken["job"]["args"]["reason"]
    path = path_of(table)
    waiting = ok(await spec.http.post(path, headers=header, json={"after": None}))
    assert (waiting["files"], "a rewrite would make such a write fail" in waiting["waiting"]["reason"]) == (0, True)
    house.clock.advance(QUIET_MS)
    assert ok(await spec.http.post(path, headers=header, json={"after": None}))["files"] == 19
    health = ok(await spec.http.get(f"{V1}/catalogs/lake/namespaces/sea/tables/t/health"))
    assert (health["facts"]["files_without_statistics"], health["facts"]["rows"]) == (0, 19)
