"""Expiry of managed Delta tables: what holds old versions, and which files of the log are deleted."""

from __future__ import annotations

import json
import os
from typing import Any

import pyarrow.parquet as pq
import pytest
from msgspec.structs import force_setattr

from moorage.api.console import console
from moorage.core.ids import SecurableId
from moorage.core.jobs import CHECKPOINT
from moorage.core.pipelines import Definition, Flow, to_details
from moorage.core.securables import MAIN, Doc, Kind
from moorage.snapshots.snapshots import Snapshots
from moorage.testing import builders as make
from moorage.testing import delta_writer as write
from moorage.usecases.catalog.addresses import find_by_id
from moorage.usecases.delta.files import table_ref
from moorage.usecases.delta.format import DeltaFormat
from moorage.usecases.upkeep.autopilot import look_after_tables
from moorage.usecases.upkeep.publish import publish_due
from tests.api.delta.delta_client import TABLES, UNITY, DeltaClient, Staged, ok
from tests.api.house import V1, House

HOUR_MS = 60 * 60 * 1000
DAY_MS = 24 * HOUR_MS
NOW = {"delta.deletedFileRetentionDuration": "interval 0 days", "delta.logRetentionDuration": "interval 0 days"}
VERSIONS = 12


@pytest.fixture(autouse=True)
def later(house: House) -> None:
    """All commits are a day old, and nothing that was handed out is still in use."""
    house.clock.advance(DAY_MS)
    force_setattr(house.ports, "min_deletion_delay_ms", 0)
    force_setattr(house.ports, "share_url_lifetime_ms", 0)


async def grown(client: DeltaClient, **properties: str) -> Staged:
    table = await client.make(properties={**NOW, **properties})
    for version in range(1, VERSIONS + 1):
        ok(await client.commit(table, table.stage(version, write.add(stats=json.dumps({"numRecords": 1})))))
    return table


async def lease(house: House, kind: str, *, enqueue: bool = True, **args: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """Take a job about the table, and return it with the header of its worker."""
    if enqueue:
        ok(await house.console.post("/catalogs/lake/namespaces/sea/tables/t/jobs", {"kind": kind, "args": args}), 202)
    found = ok(await house.console.post("/jobs:take", {"worker": "w", "kinds": [kind]}))
    return found, {"moorage-job": f"{found['job']['id']};fence={found['fence']}"}


async def work(house: House, client: DeltaClient, table: Staged, kind: str, path: str, **more: Any) -> dict[str, Any]:
    found, header = await lease(house, kind, **more)
    result: dict[str, Any] = ok(await client.http.post(f"{V1}/tables/{table.id}/{path}", headers=header))
    ok(await house.console.post(f"/jobs/{found['job']['id']}:succeed", {"fence": found["fence"], "result": {}}))
    return result


async def expire(house: House, client: DeltaClient, table: Staged) -> dict[str, Any]:
    return await work(house, client, table, "expire", "expiry")


async def share(client: DeltaClient, **details: Any) -> None:
    ok(await client.http.post(f"{UNITY}/shares", json={"name": "s"}))
    shared = {"name": "lake.sea.t", "data_object_type": "TABLE", **details}
    ok(await client.http.patch(f"{UNITY}/shares/s", json={"updates": [{"action": "ADD", "data_object": shared}]}))


async def test_without_a_hold_all_versions_past_the_retention_expire(house: House, spec: DeltaClient) -> None:
    found = await expire(house, spec, await grown(spec))
    assert (found["floor"], found["held_by"]) == (VERSIONS, [])


async def test_a_dry_run_announces_nothing(house: House, spec: DeltaClient) -> None:
    table = await grown(spec)
    ok(await spec.commit(table, table.stage(VERSIONS + 1, *[write.remove(f"{n}.parquet") for n in range(3)])))
    unneeded = table.folder / "unneeded.parquet"
    unneeded.write_bytes(b"7 bytes")
    os.utime(unneeded, (1, 1))
    dry = await work(house, spec, table, "expire", "expiry", dry_run=True)
    assert (dry["files"], dry["bytes"], dry["job"]) == (1, 7, None)
    versions = f"{UNITY}/delta/v1/catalogs/lake/schemas/sea/tables/t/files"
    ok(await spec.http.get(versions, params={"version": 0}))
    assert ok(await house.console.get("/jobs", state="queued"))["items"] == []
    found = await expire(house, spec, table)
    assert (found["floor"], found["files"], found["bytes"]) == (dry["floor"], dry["files"], dry["bytes"])
    assert found["floor"] == VERSIONS + 1
    assert (await spec.http.get(versions, params={"version": 0})).status_code == 404


async def test_an_open_dry_run_does_not_stand_for_an_expiry(house: House, spec: DeltaClient) -> None:
    await grown(spec)
    path = "/catalogs/lake/namespaces/sea/tables/t/jobs"
    bodies = [{"kind": "expire", "args": {"dry_run": dry}} for dry in (True, False, True)]
    ids = [ok(await house.console.post(path, body), 202)["id"] for body in bodies]
    assert (ids[0] != ids[1], ids[0]) == (True, ids[2])


async def test_a_vacuum_cannot_be_requested_and_is_not_offered(house: House, spec: DeltaClient) -> None:
    await spec.make()
    path = "/catalogs/lake/namespaces/sea/tables/t/jobs"
    refused = await house.console.post(path, {"kind": "vacuum", "args": {}})
    assert refused.status_code == 400
    message = refused.json()["error"]["message"]
    assert (
        message
        == "kind 'vacuum' does not exist for 'lake.sea.t'; its kinds are checkpoint, compact, expire, statistics"
    )


async def test_a_share_with_history_holds_its_start_version(house: House, spec: DeltaClient) -> None:
    table = await grown(spec)
    await share(spec, history_data_sharing_status="ENABLED", start_version=4)
    found = await expire(house, spec, table)
    assert (found["floor"], found["held_by"]) == (4, ["share 's' shares the history of the table"])
    health = ok(await spec.http.get(f"{V1}/catalogs/lake/namespaces/sea/tables/t/health"))
    assert health["facts"]["old_versions"] == 0, "another expiry would change nothing"


async def test_a_share_without_history_holds_nothing(house: House, spec: DeltaClient) -> None:
    table = await grown(spec)
    await share(spec)
    assert (await expire(house, spec, table))["floor"] == VERSIONS


async def test_a_running_compaction_holds_the_version_that_it_reads(house: House, spec: DeltaClient) -> None:
    table = await grown(spec)
    await lease(house, "compact")
    house.clock.advance(1)
    ok(await spec.commit(table, table.stage(VERSIONS + 1)))
    found = await expire(house, spec, table)
    assert found["floor"] == VERSIONS
    assert "rewrites files" in found["held_by"][0]


async def add_pipeline(house: House, client: DeltaClient) -> str:
    """A pipeline that reads the table as a stream. Returns the path that runs it."""
    flow = Flow(name="f", target="lake.sea.copy", reads=("lake.sea.t",))
    definition = Definition(files={}, digest="", tables=("lake.sea.copy",), flows=(flow,))
    space = ok(await client.http.get(f"{V1}/catalogs/lake/namespaces/sea"))["id"]
    pipeline = make.create(Kind.PIPELINE, space, "p", doc=Doc(details=to_details(definition)))
    await make.add(house.ledger, pipeline)
    return "/catalogs/lake/namespaces/sea/pipelines/p:run"


async def test_a_pipeline_that_streams_the_table_holds_what_it_has_not_read(house: House, spec: DeltaClient) -> None:
    table = await grown(spec)
    ok(await house.console.post(await add_pipeline(house, spec), {}), 202)
    ok(await spec.commit(table, table.stage(VERSIONS + 1)))
    found = await expire(house, spec, table)
    assert (found["floor"], found["held_by"]) == (VERSIONS, ["pipeline 'p' reads the table as a stream"])


async def test_a_pipeline_that_fails_all_the_time_still_holds_what_it_has_not_read(
    house: House, spec: DeltaClient
) -> None:
    table = await grown(spec)
    runs = await add_pipeline(house, spec)
    for number in range(25):
        ok(await house.console.post(runs, {}), 202)
        taken = ok(await house.console.post("/jobs:take", {"worker": "w", "kinds": ["pipeline"]}))
        end = {"result": {}} if number == 0 else {"error": "the disk is full", "final": True}
        verb = "fail" if number else "succeed"
        ok(await house.console.post(f"/jobs/{taken['job']['id']}:{verb}", {"fence": taken["fence"], **end}))
        if number == 0:
            ok(await spec.commit(table, table.stage(VERSIONS + 1)))
    assert (await expire(house, spec, table))["floor"] == VERSIONS


async def test_iceberg_clients_hold_the_version_that_was_converted_for_them(house: House, spec: DeltaClient) -> None:
    table = await grown(spec)
    space = f"{V1}/catalogs/lake/namespaces/sea"
    ok(await spec.http.patch(space, json={"set_properties": {"moorage.uniform": "iceberg"}}))
    ok(await spec.http.get("/iceberg/v1/lake/namespaces/sea/tables/t"))
    ok(await spec.commit(table, table.stage(VERSIONS + 1, write.add(stats=json.dumps({"numRecords": 1})))))
    found = await expire(house, spec, table)
    assert found["floor"] == VERSIONS
    assert found["held_by"] == [f"iceberg clients read version {VERSIONS}, the last one that was converted"]


# --- checkpoints and the log ---------------------------------------------------------------------------------------


async def vacuum(house: House, client: DeltaClient, table: Staged) -> dict[str, Any]:
    """Expire the old versions, and delete their files without a wait."""
    await expire(house, client, table)
    return await work(house, client, table, "vacuum", "deletion", enqueue=False)


def log_of(table: Staged) -> set[str]:
    folder = table.folder / "_delta_log"
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


async def test_a_vacuum_writes_the_checkpoint_that_the_rest_of_the_log_begins_with(
    house: House, spec: DeltaClient
) -> None:
    table = await grown(spec)
    await publish_due(house.ports)
    found = await vacuum(house, spec, table)
    left = log_of(table)
    assert f"{VERSIONS:020}.json" in left
    assert not any(name.startswith(f"{version:020}.") for name in left for version in range(VERSIONS))
    assert found["log_files"] >= 2 * VERSIONS - 1, "commits and staged commits"
    files = ok(await spec.http.get(f"{UNITY}/delta/v1/catalogs/lake/schemas/sea/tables/t/files"))["files"]
    assert len(files) == VERSIONS


async def test_a_checkpoint_of_a_client_that_differs_from_the_log_is_not_relied_on(
    house: House, spec: DeltaClient
) -> None:
    table = await grown(spec)
    made = await work(house, spec, table, "checkpoint", "checkpoint")
    assert (made["version"], made["is_new"], made["replayed_before"]) == (VERSIONS, True, VERSIONS + 1)
    (sidecar,) = (table.folder / "_delta_log" / "_sidecars").iterdir()
    rows = pq.read_table(sidecar)
    pq.write_table(rows.slice(1), sidecar)
    before = log_of(table)
    await expire(house, spec, table)
    _, header = await lease(house, "vacuum", enqueue=False)
    refused = await spec.http.post(f"{V1}/tables/{table.id}/deletion", headers=header)
    assert refused.status_code == 500, refused.text
    assert "differs from the log in its files" in refused.text
    assert log_of(table) == before


async def test_a_clean_up_that_was_interrupted_in_any_order_is_completed(house: House, spec: DeltaClient) -> None:
    """Object stores delete many files at once, in no order."""
    table = await grown(spec)
    await work(house, spec, table, "checkpoint", "checkpoint")
    for version in (3, 4):
        (table.folder / "_delta_log" / f"{version:020}.json").unlink()
    unneeded = table.folder / "unneeded.parquet"
    unneeded.write_bytes(b"PAR1")
    os.utime(unneeded, (1, 1))
    found = await vacuum(house, spec, table)
    assert (found["files"], found["log_files"] >= VERSIONS) == (1, True)
    left = log_of(table)
    assert not any(name.startswith(f"{version:020}.") for name in left for version in range(VERSIONS))


async def test_a_log_compaction_has_the_last_action_on_every_file_since_the_checkpoint(
    house: House, spec: DeltaClient
) -> None:
    table = await grown(spec)
    await work(house, spec, table, "checkpoint", "checkpoint")
    first = VERSIONS + 1
    stats = json.dumps({"numRecords": 1})
    older = ok(await spec.http.get(f"{TABLES}/t/files"))["files"][0]["path"]
    commits = [
        [write.add("a.parquet", stats=stats), {"txn": {"appId": "app", "version": 1}}],
        [write.remove("a.parquet"), write.remove(older), write.add("b.parquet", stats=stats)],
        [write.add("a.parquet", stats=stats, size=7), {"txn": {"appId": "app", "version": 2}}],
    ]
    for number, actions in enumerate(commits):
        ok(await spec.commit(table, table.stage(first + number, *actions)))
    before = ok(await spec.http.get(f"{TABLES}/t/files"))["files"]
    for is_new in (True, False):
        made = await work(house, spec, table, "checkpoint", "checkpoint", commits_only=True)
        assert (made["is_new"], made["replayed_before"]) == (is_new, 3)
    (file,) = (table.folder / "_delta_log").glob("*.compacted.json")
    assert file.name == f"{first:020}.{first + 2:020}.compacted.json"
    actions = [json.loads(line) for line in file.read_text().splitlines()]
    found = {
        (kind, each["path"], each["dataChange"]) for line in actions for kind, each in line.items() if "path" in each
    }
    assert found == {("add", "a.parquet", False), ("add", "b.parquet", False), ("remove", older, False)}
    assert [line["txn"]["version"] for line in actions if "txn" in line] == [2]
    assert len(actions) == 4
    securable = (await find_by_id(house.ledger, table.id))[-1]
    fresh = await Snapshots(house.ports.storage).at(await table_ref(house.ports, securable))
    sizes = dict(zip(*(fresh.select()[name].to_pylist() for name in ("path", "size")), strict=True))
    assert sizes == {each["path"]: each["size"] for each in before}
    assert sizes["a.parquet"] == 7


async def test_the_log_of_a_protected_table_is_deleted_as_a_whole_or_not_at_all(
    house: House, spec: DeltaClient
) -> None:
    table = await grown(spec, **{"delta.requireCheckpointProtectionBeforeVersion": str(VERSIONS + 1)})
    await publish_due(house.ports)
    assert (await vacuum(house, spec, table))["log_files"] == 0
    assert f"{0:020}.json" in log_of(table)


async def test_the_server_requests_a_checkpoint_of_a_long_log(
    house: House, spec: DeltaClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = await spec.make()
    for version in range(1, 120):
        ok(await spec.commit(table, table.stage(version, write.add(stats=json.dumps({"numRecords": 1})))))
    monkeypatch.setattr(DeltaFormat, "job_kinds", frozenset({CHECKPOINT}))
    ok(await spec.http.patch(f"{V1}/catalogs/lake", json={"set_properties": {"moorage.upkeep.policy": "auto"}}))
    assert await look_after_tables(house.ports) == 1
    made = await work(house, spec, table, "checkpoint", "checkpoint", enqueue=False)
    assert made["replayed_before"] == 120
    assert await look_after_tables(house.ports) == 0


async def delete(house: House, client: DeltaClient, table: Staged) -> dict[str, Any]:
    """Run the oldest vacuum that is due."""
    return await work(house, client, table, "vacuum", "deletion", enqueue=False)


async def expired_twice(house: House, spec: DeltaClient) -> Staged:
    """A table of which a second expiry has raised the floor before the vacuum of the first one has run."""
    table = await grown(spec)
    for name in ("first", "second"):
        (table.folder / f"{name}.parquet").write_bytes(b"PAR1")
        os.utime(table.folder / f"{name}.parquet", (1, 1))
    added = write.add("second.parquet", size=4, stats=json.dumps({"numRecords": 1}))
    ok(await spec.commit(table, table.stage(VERSIONS + 1, added)))
    house.clock.advance(DAY_MS)
    assert (await expire(house, spec, table))["floor"] == VERSIONS + 1
    ok(await spec.commit(table, table.stage(VERSIONS + 2, write.remove("second.parquet"))))
    house.clock.advance(DAY_MS)
    assert (await expire(house, spec, table))["floor"] == VERSIONS + 2
    return table


async def test_a_vacuum_whose_floor_was_raised_again_meanwhile_deletes_what_it_announced(
    house: House, spec: DeltaClient
) -> None:
    table = await expired_twice(house, spec)
    first = await delete(house, spec, table)
    assert (first["floor"], first["files"]) == (VERSIONS + 1, 1)
    assert (table.folder / "second.parquet").exists(), "its deletion was announced later"
    second = await delete(house, spec, table)
    assert (second["floor"], second["files"]) == (VERSIONS + 2, 1)
    assert not list(table.folder.glob("*.parquet"))


async def test_a_vacuum_that_runs_after_the_next_one_has_nothing_to_do(house: House, spec: DeltaClient) -> None:
    table = await expired_twice(house, spec)
    (first, _) = ok(await house.console.get("/jobs", kind="vacuum"))["items"]
    ok(await house.console.post(f"/jobs/{first['id']}:cancel"))
    assert (await delete(house, spec, table))["floor"] == VERSIONS + 2
    for file in (table.folder / "_delta_log").glob("*.json"):  # so that its version cannot be read any more
        if int(file.stem) < VERSIONS + 2:
            file.unlink()
    ok(await house.console.post(f"/jobs/{first['id']}:retry"), 202)
    found = await delete(house, spec, table)
    assert (found["floor"], found["files"]) == (VERSIONS + 1, 0)


async def test_a_vacuum_that_is_cancelled_and_retried_still_waits(house: House, spec: DeltaClient) -> None:
    force_setattr(house.ports, "min_deletion_delay_ms", DAY_MS)
    await expire(house, spec, await grown(spec))
    (job,) = ok(await house.console.get("/jobs", kind="vacuum"))["items"]
    ok(await house.console.post(f"/jobs/{job['id']}:cancel"))
    again = ok(await house.console.post(f"/jobs/{job['id']}:retry"), 202)
    assert (again["state"], again["not_before_ms"]) == ("queued", job["not_before_ms"])


async def test_a_file_that_a_writer_is_about_to_commit_stays_although_the_clock_of_the_first_writer_was_ahead(
    house: House, spec: DeltaClient
) -> None:
    table = await spec.make()
    (first,) = await house.ledger.versions(SecurableId(table.id), MAIN)
    house.clock.advance(first.timestamp_ms - 5 * HOUR_MS - house.clock())
    young = table.folder / "young.parquet"
    young.write_bytes(b"PAR1")
    os.utime(young, (house.clock() // 1000, house.clock() // 1000))
    await expire(house, spec, table)
    house.clock.advance(3 * HOUR_MS)
    assert (await delete(house, spec, table))["files"] == 0
    assert young.exists()


async def test_versions_are_kept_for_as_many_days_as_the_description_of_the_table_states(
    house: House, spec: DeltaClient
) -> None:
    table = await grown(spec)
    ok(await spec.http.patch(f"{UNITY}/tables/lake.sea.t", json={"retention_days": 3}))
    assert (await expire(house, spec, table))["floor"] == 0
    house.clock.advance(3 * DAY_MS)
    assert (await expire(house, spec, table))["floor"] == VERSIONS


@pytest.mark.parametrize("operation", ["announceExpiry", "deleteExpired", "createCheckpoint"])
def test_work_on_all_files_of_a_table_may_last_longer_than_the_request_timeout(operation: str) -> None:
    (route,) = [route for route in console.routes if route.operation == operation]
    assert route.patient, "listing a million files of an object store takes minutes"
