"""Scan planning by the server."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from moorage.formats.iceberg import avro
from moorage.formats.iceberg.manifests import Manifest, ManifestFile, parse_manifest
from moorage.testing.manifest_writer import entry
from moorage.usecases.iceberg import manifests as iceberg_manifests
from moorage.usecases.iceberg import plans as iceberg_plans
from tests.api.iceberg.lake import Lake, refused
from tests.api.iceberg.planning import BY_CITY, Planned, data, eq, paths, planned_table

ASYNC = {"prefer": "respond-async"}


@pytest.fixture
async def orders(lake: Lake) -> Planned:
    return await planned_table(lake)


@pytest.fixture
async def by_city(lake: Lake) -> Planned:
    return await planned_table(lake, "orders", **{"partition-spec": BY_CITY})


async def test_a_table_without_rows_has_a_plan_without_files(orders: Planned) -> None:
    answer = (await orders.plan()).json()
    assert answer.pop("plan-id")
    assert answer == {"status": "completed", "delete-files": [], "file-scan-tasks": [], "plan-tasks": []}


async def test_a_task_has_every_property_of_its_data_file(by_city: Planned) -> None:
    file = data("a.parquet", "Oslo", ids=(1, 5), split_offsets=[4], sort_order_id=1, key_metadata=b"\xab")
    await by_city.commit(by_city.line(file))
    wanted = {"type": "and", "left": eq("city", "Oslo"), "right": eq("id", 3)}
    answer = (await by_city.plan(filter=wanted)).json()
    assert answer["file-scan-tasks"] == [
        {
            "data-file": {
                "content": "data",
                "file-path": "a.parquet",
                "file-format": "parquet",
                "spec-id": 0,
                "partition": ["Oslo"],
                "file-size-in-bytes": 1000,
                "record-count": 10,
                "key-metadata": "AB",
                "split-offsets": [4],
                "sort-order-id": 1,
            },
            "residual-filter": eq("id", 3),
        }
    ]


async def test_files_are_excluded_by_partition_and_by_bounds(by_city: Planned) -> None:
    oslo, rome = data("oslo", "Oslo", ids=(1, 5)), data("rome", "Rome", ids=(6, 9))
    nowhere = data("nowhere", None, ids=(20, 30))
    await by_city.commit(by_city.line(oslo, rome), by_city.line(nowhere))
    assert await by_city.files() == ["oslo", "rome", "nowhere"]
    assert await by_city.files(filter=eq("city", "Rome")) == ["rome"]
    assert await by_city.files(filter=eq("id", 7)) == ["rome"]
    assert await by_city.files(filter={"type": "is-null", "term": "city"}) == ["nowhere"]
    assert await by_city.files(filter={"type": "not", "child": eq("city", "Rome")}) == ["oslo", "nowhere"]
    assert await by_city.files(filter=False) == []


async def test_a_manifest_is_not_read_if_the_list_excludes_it(by_city: Planned) -> None:
    summary = {"contains_null": False, "contains_nan": False, "lower_bound": b"Oslo", "upper_bound": b"Rome"}
    line = by_city.line(data("a", "Oslo"), partitions=[summary])
    await by_city.commit(line)
    by_city.folder.joinpath("m0.avro").unlink()
    assert await by_city.files(filter=eq("city", "Bonn")) == []
    refused(await by_city.plan(filter=eq("city", "Paris")), 500, "InternalServerError", "is missing")


async def test_delete_files_are_listed_once_and_referenced_by_index(orders: Planned) -> None:
    vector = entry(
        "v.puffin",
        content=1,
        file_format="PUFFIN",
        referenced_data_file="a",
        content_offset=4,
        content_size_in_bytes=40,
        sequence=2,
    )
    equality = entry("e.parquet", content=2, equality_ids=[1], sequence=2)
    await orders.commit(orders.line(data("a"), data("b")))
    await orders.commit(orders.line(data("c")), orders.line(vector, equality, deletes=True), operation="delete")
    answer = (await orders.plan()).json()
    listed = [(file["file-path"], file["content"], file["file-format"]) for file in answer["delete-files"]]
    assert listed == [
        ("e.parquet", "equality-deletes", "parquet"),
        ("v.puffin", "position-deletes", "puffin"),
    ]
    assert answer["delete-files"][0]["equality-ids"] == [1]
    vectors = answer["delete-files"][1]
    assert (vectors["referenced-data-file"], vectors["content-offset"], vectors["content-size-in-bytes"]) == (
        "a",
        4,
        40,
    )
    found = {task["data-file"]["file-path"]: task.get("delete-file-references") for task in answer["file-scan-tasks"]}
    assert found == {"a": [0, 1], "b": [0], "c": None}


async def test_many_files_are_split_into_tasks_that_can_be_fetched_in_any_order(orders: Planned) -> None:
    lines = [orders.line(*(data(f"{at}-{n}") for n in range(count))) for at, count in enumerate((600, 2_500, 300))]
    await orders.commit(*lines)
    answer = await orders.plan()
    later = answer.json()["plan-tasks"]
    assert (len(paths(answer)), len(later)) == (600, 4)
    fetched = await asyncio.gather(*(orders.tasks(task) for task in reversed(later)))
    sizes = [len(paths(each)) for each in fetched]
    assert sizes == [300, 500, 1_000, 1_000]
    assert all(each.json()["plan-tasks"] == [] for each in fetched)
    found = [*paths(answer), *(path for each in fetched for path in paths(each))]
    assert len(found) == len(set(found)) == 3_400


async def test_tasks_use_the_snapshot_and_schema_of_their_plan(lake: Lake, orders: Planned) -> None:
    await orders.commit(*(orders.line(*(data(f"{at}-{n}", ids=(n, n)) for n in range(800))) for at in range(2)))
    answer = (await orders.plan(filter=eq("id", 7))).json()
    await orders.commit(orders.line(data("later", ids=(7, 7))))
    schema = orders.metadata["schemas"][0]
    renamed = {**schema, "schema-id": 1, "fields": [{**schema["fields"][0], "name": "number"}]}
    updates = {"action": "add-schema", "schema": renamed}, {"action": "set-current-schema", "schema-id": -1}
    assert (await lake.commit("orders", *updates)).status_code == 200
    lake.house.ports.local.clear_caches()
    assert paths(await orders.tasks(answer["plan-tasks"][0])) == ["1-7"]


def seen_by_ann(lake: Lake, table: Planned) -> Planned:
    return Planned(Lake(lake.house, lake.managed.parent, **{"x-caller": "ann"}), table.name, table.metadata)


async def test_a_forged_or_expired_task_is_not_found(lake: Lake, orders: Planned) -> None:
    await orders.commit(*(orders.line(*(data(f"{at}-{n}") for n in range(800))) for at in range(2)))
    answer = (await orders.plan()).json()
    (task,) = answer["plan-tasks"]
    other = await planned_table(lake, "returns")
    for wrong in (task[:-2], task.swapcase(), "", "x", answer["plan-id"]):
        refused(await orders.tasks(wrong), 404, "NoSuchPlanTaskException")
    refused(await other.tasks(task), 404, "NoSuchPlanTaskException")
    refused(await seen_by_ann(lake, orders).tasks(task), 404, "NoSuchPlanTaskException")
    lake.house.clock.advance(iceberg_plans.PLAN_LIFETIME_MS + 1)
    refused(await orders.tasks(task), 404, "NoSuchPlanTaskException", "expired")


async def test_a_plan_can_be_submitted_and_fetched_from_any_server(orders: Planned) -> None:
    await orders.commit(orders.line(data("a", ids=(1, 5))))
    answer = (await orders.plan(ASYNC, filter=eq("id", 3))).json()
    assert (answer["status"], sorted(answer)) == ("submitted", ["plan-id", "status"])
    orders.lake.house.ports.local.clear_caches()  # as on another server
    fetched = await orders.fetch(answer["plan-id"])
    assert (fetched.json()["status"], paths(fetched)) == ("completed", ["a"])
    assert paths(await orders.fetch(answer["plan-id"])) == ["a"]


async def test_a_plan_with_many_uncached_manifests_is_only_submitted(
    orders: Planned, monkeypatch: pytest.MonkeyPatch
) -> None:
    await orders.commit(orders.line(data("a")))
    monkeypatch.setattr(iceberg_plans, "_MAX_UNCACHED_BYTES", 10)
    submitted = (await orders.plan()).json()
    assert submitted["status"] == "submitted"
    assert paths(await orders.fetch(submitted["plan-id"])) == ["a"]
    assert (await orders.plan()).json()["status"] == "completed"  # all manifests are cached now


async def test_a_fetch_returns_submitted_after_a_limited_wait(orders: Planned, monkeypatch: pytest.MonkeyPatch) -> None:
    await orders.commit(orders.line(data("a")))
    id = (await orders.plan(ASYNC)).json()["plan-id"]
    orders.lake.house.ports.local.clear_caches()
    monkeypatch.setattr(iceberg_plans, "_MAX_WAIT_SECONDS", 0)
    assert (await orders.fetch(id)).json() == {"status": "submitted"}
    monkeypatch.undo()
    assert paths(await orders.fetch(id)) == ["a"]


async def test_plans_evicted_from_the_background_are_computed_when_fetched(orders: Planned) -> None:
    await orders.commit(orders.line(data("a", ids=(0, 99))))
    submitted = [(await orders.plan(ASYNC, filter=eq("id", number))).json()["plan-id"] for number in range(70)]
    assert len(orders.lake.house.ports.local.cache(iceberg_plans._RUNNING)) == 64
    assert [paths(await orders.fetch(id)) for id in submitted] == [["a"]] * 70
    assert len(orders.lake.house.ports.local.cache(iceberg_plans._RUNNING)) == 0


async def test_a_plan_that_was_completed_immediately_can_be_fetched_and_cancelled(orders: Planned) -> None:
    await orders.commit(orders.line(data("a")))
    id = (await orders.plan()).json()["plan-id"]
    assert paths(await orders.fetch(id)) == ["a"]
    assert (await orders.cancel(id)).status_code == 204
    assert (await orders.fetch(id)).json() == {"status": "cancelled"}


async def test_a_plan_can_be_cancelled_twice_and_stays_cancelled(orders: Planned) -> None:
    await orders.commit(orders.line(data("a")))
    id = (await orders.plan(ASYNC)).json()["plan-id"]
    assert (await orders.cancel(id)).status_code == 204
    assert (await orders.cancel(id)).status_code == 204
    assert (await orders.fetch(id)).json() == {"status": "cancelled"}


async def test_a_forged_or_expired_plan_is_not_found(lake: Lake, orders: Planned) -> None:
    id = (await orders.plan()).json()["plan-id"]
    other = await planned_table(lake, "returns")
    for ask in (orders.fetch, orders.cancel):
        refused(await ask(id[:-2]), 404, "NoSuchPlanIdException")
        refused(await ask("x"), 404, "NoSuchPlanIdException")
    refused(await other.fetch(id), 404, "NoSuchPlanIdException")
    refused(await seen_by_ann(lake, orders).fetch(id), 404, "NoSuchPlanIdException")
    lake.house.clock.advance(iceberg_plans.PLAN_LIFETIME_MS + 1)
    refused(await orders.fetch(id), 404, "NoSuchPlanIdException", "expired")
    refused(await orders.cancel(id), 404, "NoSuchPlanIdException")


async def test_a_plan_is_not_found_after_its_snapshot_was_removed(lake: Lake, orders: Planned) -> None:
    first = await orders.commit(orders.line(data("a")))
    id = (await orders.plan(ASYNC)).json()["plan-id"]
    orders.lake.house.ports.local.clear_caches()
    await orders.commit(orders.line(data("b")))
    assert (await lake.commit("orders", {"action": "remove-snapshots", "snapshot-ids": [first]})).status_code == 200
    refused(await orders.fetch(id), 404, "NoSuchPlanIdException")


async def test_a_submitted_plan_that_fails_reports_the_reason(orders: Planned) -> None:
    await orders.commit(orders.line(data("a")))
    orders.folder.joinpath("m0.avro").unlink()
    id = (await orders.plan(ASYNC)).json()["plan-id"]
    refused(await orders.fetch(id), 500, "InternalServerError", "m0.avro is missing")


async def test_a_very_long_filter_is_planned_immediately(orders: Planned) -> None:
    """Its id would be too long for a URL."""
    await orders.commit(orders.line(data("a", ids=(1, 5))))
    wanted = {"type": "in", "term": "id", "values": list(range(10_000))}
    answer = (await orders.plan(ASYNC, filter=wanted)).json()
    assert (answer["status"], len(answer["file-scan-tasks"])) == ("completed", 1)
    refused(await orders.fetch(answer["plan-id"]), 404, "NoSuchPlanIdException")
    assert (await orders.cancel(answer["plan-id"])).status_code == 204


async def test_files_appended_between_two_snapshots_can_be_planned(orders: Planned) -> None:
    one = await orders.commit(orders.line(data("a", snapshot=1)))
    await orders.commit(orders.line(data("b", snapshot=2)))
    await orders.commit(orders.line(data("rewritten", snapshot=3)), operation="overwrite")
    last = await orders.commit(orders.line(data("c", snapshot=4), data("old", status=0, snapshot=1)))
    between = {"start_snapshot_id": one, "end_snapshot_id": last}
    assert await orders.files(**between) == ["b", "c"]
    refused(
        await orders.plan(start_snapshot_id=last, end_snapshot_id=one), 400, "BadRequestException", "not an ancestor"
    )
    refused(await orders.plan(start_snapshot_id=one), 400, "BadRequestException", "end-snapshot-id")
    refused(await orders.plan(snapshot_id=one, **between), 400, "BadRequestException", "snapshot-id")


async def test_an_older_snapshot_is_planned_with_its_own_files(orders: Planned) -> None:
    first = await orders.commit(orders.line(data("a")))
    await orders.commit(orders.line(data("b")))
    assert await orders.files(snapshot_id=first) == ["a"]
    refused(await orders.plan(snapshot_id=99), 400, "BadRequestException", "no snapshot 99")


async def test_columns_are_those_of_the_snapshot_if_requested(lake: Lake, orders: Planned) -> None:
    await orders.commit(orders.line(data("a", ids=(1, 5))))
    schema = orders.metadata["schemas"][0]
    renamed = {**schema, "schema-id": 1, "fields": [{**schema["fields"][0], "name": "number"}]}
    updates = {"action": "add-schema", "schema": renamed}, {"action": "set-current-schema", "schema-id": -1}
    assert (await lake.commit("orders", *updates)).status_code == 200
    assert await orders.files(filter=eq("number", 3)) == ["a"]
    assert await orders.files(filter=eq("id", 3), use_snapshot_schema=True) == ["a"]
    refused(await orders.plan(filter=eq("id", 3)), 400, "BadRequestException", "no column 'id'")
    # Spark asks for the schema of the snapshot, but uses current names.
    assert await orders.files(filter=eq("number", 3), use_snapshot_schema=True) == ["a"]
    refused(await orders.plan(filter=eq("no", 3), use_snapshot_schema=True), 400, "BadRequestException", "no column")


async def test_names_match_case_sensitively_unless_the_request_says_otherwise(orders: Planned) -> None:
    await orders.commit(orders.line(data("a", ids=(1, 5))))
    refused(await orders.plan(filter=eq("ID", 3)), 400, "BadRequestException", "filter: there is no column 'ID'")
    answer = (await orders.plan(filter=eq("ID", 3), select=["CITY"], case_sensitive=False)).json()
    assert answer["file-scan-tasks"][0]["residual-filter"] == eq("id", 3)


async def test_statistics_are_returned_for_the_requested_fields(orders: Planned) -> None:
    stats: dict[str, Any] = {
        "column_sizes": {1: 80, 2: 90},
        "value_counts": {1: 10, 2: 10},
        "null_value_counts": {1: 0, 2: 3},
        "nan_value_counts": {},
        "lower_bounds": {1: bytes(8), 2: b"Bonn"},
        "upper_bounds": {1: b"\x05" + bytes(7), 2: b"Rome"},
    }
    await orders.commit(orders.line(data("a", **stats)))
    plain = (await orders.plan()).json()["file-scan-tasks"][0]["data-file"]
    assert not any("bounds" in name or "counts" in name for name in plain)
    typed = (await orders.plan(stats_fields=["id", "city"])).json()["file-scan-tasks"][0]["data-file"]
    assert typed["lower-bounds"] == {"keys": [1, 2], "values": [0, "Bonn"]}
    assert typed["null-value-counts"] == {"keys": [1, 2], "values": [0, 3]}
    some = (await orders.plan(stats_fields=["city"])).json()["file-scan-tasks"][0]["data-file"]
    assert (some["upper-bounds"], some["column-sizes"]) == (
        {"keys": [2], "values": ["Rome"]},
        {"keys": [2], "values": [90]},
    )


async def test_unknown_names_in_select_and_stats_fields_are_ignored(orders: Planned) -> None:
    """Spark sends current names with a scan of an older snapshot."""
    await orders.commit(orders.line(data("a", ids=(0, 5))))
    file = (await orders.plan(select=["removed"], stats_fields=["removed", "id"])).json()["file-scan-tasks"][0][
        "data-file"
    ]
    assert file["lower-bounds"] == {"keys": [1], "values": [0]}


async def test_java_clients_receive_bounds_as_raw_bytes(orders: Planned) -> None:
    await orders.commit(orders.line(data("a", ids=(0, 5))))
    java = {"x-client-version": "Apache Iceberg 1.12.0 (commit 1a2b3c)"}
    file = (await orders.plan(java, stats_fields=["id"])).json()["file-scan-tasks"][0]["data-file"]
    assert file["upper-bounds"] == {"keys": [1], "values": ["0500000000000000"]}


async def test_a_plan_stops_when_its_files_have_enough_rows(orders: Planned) -> None:
    lines = [orders.line(*(data(f"{at}-{n}", ids=(n, n)) for n in range(800))) for at in range(2)]
    await orders.commit(*lines)
    answer = await orders.plan(min_rows_requested=25)
    assert (len(paths(answer)), answer.json()["plan-tasks"]) == (3, [])
    filtered = await orders.plan(min_rows_requested=25, filter={"type": "gt", "term": "id", "value": 3})
    assert (len(paths(filtered)), len(filtered.json()["plan-tasks"])) == (796, 1)
    refused(await orders.plan(min_rows_requested=-1), 400, "BadRequestException", "min-rows-requested")


@pytest.mark.parametrize("where", ["/etc/passwd", "file:///etc/passwd", "../../../elsewhere/snap.avro"])
async def test_nothing_is_read_outside_the_table(orders: Planned, where: str) -> None:
    await orders.commit(manifest_list_at=where)
    refused(await orders.plan(), 406, "UnsupportedOperationException", "outside the table's locations")


async def test_a_manifest_that_is_too_large_must_be_planned_in_the_client(
    orders: Planned, monkeypatch: pytest.MonkeyPatch
) -> None:
    await orders.commit(orders.line(*(data("x" * 2_000) for _ in range(50))))
    monkeypatch.setattr(avro, "LARGEST", 20_000)
    refused(await orders.plan(), 406, "UnsupportedOperationException", "plan the scan in the client")


async def test_one_table_does_not_read_the_manifests_of_another(lake: Lake, orders: Planned) -> None:
    await orders.commit(orders.line(data("secret")))
    other = await planned_table(lake, "returns")
    await other.commit({**orders.lines[0]})
    refused(await other.plan(), 406, "UnsupportedOperationException")
    assert await orders.files() == ["secret"]
    refused(await other.plan(), 406, "UnsupportedOperationException")


async def test_a_manifest_list_in_place_of_a_manifest_is_damaged(orders: Planned) -> None:
    line = orders.line(data("a"))
    await orders.commit({**line, "manifest_path": f"{orders.metadata['location']}/metadata/snap-1.avro"})
    refused(await orders.plan(), 500, "InternalServerError", "as a manifest")


async def test_concurrent_plans_read_a_manifest_once(orders: Planned, monkeypatch: pytest.MonkeyPatch) -> None:
    await orders.commit(orders.line(*(data(f"{n}") for n in range(200))))
    seen: list[str] = []

    def counted(raw: bytes, listed: ManifestFile, specs: Any) -> Manifest:
        seen.append(listed.path)
        return parse_manifest(raw, listed, specs)

    monkeypatch.setattr(iceberg_manifests, "parse_manifest", counted)
    answers = await asyncio.gather(*(orders.plan() for _ in range(10)))
    assert [len(paths(answer)) for answer in answers] == [200] * 10
    assert len(seen) == 1
