"""Tables: create, stage, load, register, rename and drop."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import pytest
from msgspec.structs import force_setattr

from moorage.api.iceberg.bodies import EXAMPLE_SCHEMA
from moorage.core.securables import Shelf
from moorage.storage.local import LocalStorage
from moorage.testing import builders as make
from moorage.usecases.catalog.addresses import find_chain, namespace
from moorage.usecases.iceberg import metadata_files as iceberg_files
from moorage.usecases.upkeep.purge import purge_due
from tests.api.house import done, open_house
from tests.api.iceberg.lake import PERSISTED, SPACE, Lake, refused, set_property, to_space, to_table

DAYS_8_MS = 8 * 24 * 3_600_000


async def test_a_load_equals_the_create_response_and_the_metadata_file(lake: Lake) -> None:
    made = await lake.create("orders", properties={"owner": "ann", "format-version": "3"})
    assert made.status_code == 200
    assert (await lake.load("orders")).json() == made.json()
    (file,) = lake.metadata_files()
    assert made.json()["metadata-location"].endswith(file)
    assert json.loads((lake.managed / file).read_bytes()) == made.json()["metadata"]
    assert made.json()["metadata"]["format-version"] == 3


async def test_metadata_too_large_for_the_ledger_is_read_from_its_file(lake: Lake) -> None:
    await lake.create("orders", properties={"p": "x" * iceberg_files.MAX_STORED_BYTES})
    before = (await lake.load("orders")).json()
    lake.house.ports.local.clear_caches()
    assert (await lake.load("orders")).json() == before
    assert (await lake.commit("orders", set_property("one more"))).status_code == 200
    lake.house.ports.local.clear_caches()
    assert (await lake.metadata("orders"))["properties"]["one more"] == "1"


async def test_a_large_table_is_loaded_from_the_ledger_without_reading_its_file(lake: Lake) -> None:
    made = await lake.create("orders", properties={f"p{n}": "x" * 1000 for n in range(1000)})
    (file,) = lake.metadata_files()
    (lake.managed / file).write_bytes(b"no metadata")
    lake.house.ports.local.clear_caches()
    assert (await lake.load("orders")).json() == made.json()


async def test_a_metadata_file_is_compressed_if_the_table_asks_for_it(lake: Lake) -> None:
    wide = {f"p{n}": "x" * 1000 for n in range(300)}
    await lake.create("orders", properties={"write.metadata.compression-codec": "gzip", **wide})
    (file,) = lake.metadata_files()
    assert file.endswith(".gz.metadata.json")
    assert (lake.managed / file).stat().st_size < 20_000
    lake.house.ports.local.clear_caches()
    assert (await lake.metadata("orders"))["properties"]["p7"] == "x" * 1000


async def test_metadata_is_written_to_the_chosen_folder_but_never_outside_the_table(lake: Lake) -> None:
    location = (await lake.create("a")).json()["metadata"]["location"]
    inside = await lake.commit("a", set_property("write.metadata.path", f"{location}/log"))
    assert inside.json()["metadata-location"].startswith(f"{location}/log/00001-")
    outside = await lake.commit("a", set_property("write.metadata.path", f"{location}/../b"))
    refused(outside, 400, "BadRequestException")
    escaped = await lake.commit("a", set_property("write.metadata.path", f"{location}/my%20log"))
    refused(escaped, 400, "BadRequestException", "has escapes")
    assert (await lake.load("a")).status_code == 200


async def test_a_table_without_its_metadata_file_is_not_found(lake: Lake) -> None:
    location = (await lake.create("orders")).json()["metadata-location"]
    (file,) = lake.metadata_files()
    (lake.managed / file).unlink()
    refused(await lake.load("orders"), 404, "NotFoundException", location)


async def test_a_table_in_a_missing_namespace_is_a_missing_table(lake: Lake) -> None:
    """Java looks for `orders.files` like this, and tries the metadata table only after this error."""
    await lake.create("orders")
    path = to_table("files", "sales", "orders")
    refused(await lake.ask("GET", path), 404, "NoSuchTableException", "Table does not exist: sales.orders.files")
    refused(await lake.load("none"), 404, "NoSuchTableException", "Table does not exist: sales.none")
    refused(await lake.create("t", space=("none",)), 404, "NoSuchNamespaceException", "Namespace does not exist: none")
    refused(await lake.create("Orders"), 409, "AlreadyExistsException", "Table already exists: sales.Orders")
    assert (await lake.ask("HEAD", to_table("orders"))).status_code == 204
    assert (await lake.ask("HEAD", to_table("none"))).status_code == 404


async def test_tables_of_other_formats_are_not_visible_but_keep_their_names(lake: Lake) -> None:
    space = (await find_chain(lake.house.ledger, namespace("lake", "sales"))).chain[-1]
    await make.add(lake.house.ledger, make.table(space.id, "logs"))
    assert (await lake.ask("GET", f"{to_space('sales')}/tables")).json()["identifiers"] == []
    refused(await lake.load("logs"), 404, "NoSuchTableException")
    refused(await lake.commit("logs", set_property("a")), 404, "NoSuchTableException")
    refused(await lake.ask("DELETE", to_table("logs")), 404, "NoSuchTableException")
    refused(await lake.create("logs"), 409, "AlreadyExistsException")


async def test_a_load_with_a_current_etag_is_not_modified(lake: Lake) -> None:
    tag = (await lake.create("orders")).headers["etag"]
    assert tag.startswith('"')
    assert tag.endswith('"')
    for known in (tag, f"W/{tag}", f'"other", {tag}'):
        same = await lake.load("orders", tag=known)
        assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", tag)
    assert (await lake.load("orders", tag=tag, snapshots="refs")).status_code == 200
    moved = await lake.commit("orders", set_property("a"))
    assert moved.headers["etag"] != tag
    assert (await lake.load("orders", tag=tag)).headers["etag"] == moved.headers["etag"]


async def test_a_new_table_of_the_same_name_has_another_etag(lake: Lake) -> None:
    tag = (await lake.create("orders")).headers["etag"]
    await lake.ask("DELETE", to_table("orders"))
    await lake.create("orders")
    assert (await lake.load("orders", tag=tag)).status_code == 200


async def test_an_etag_survives_a_rename_and_an_undrop_but_not_another_file(lake: Lake) -> None:
    made = await lake.create("orders")
    tag, first = made.headers["etag"], made.json()
    names = [{"namespace": SPACE, "name": name} for name in ("orders", "sold")]
    await lake.ask("POST", "/tables/rename", {"source": names[0], "destination": names[1]})
    assert (await lake.load("sold", tag=tag)).status_code == 304
    await lake.ask("DELETE", to_table("sold"))
    await lake.house.console.post("/undrop", {"kind": "table", "id": first["metadata"]["table-uuid"]})
    assert (await lake.load("sold", tag=tag)).status_code == 304
    body = {"name": "sold", "metadata-location": first["metadata-location"], "overwrite": True}
    again = await lake.ask("POST", f"{to_space('sales')}/register", body)
    assert again.headers["etag"] != tag
    assert (await lake.load("sold", tag=tag)).status_code == 200
    assert (await lake.load("sold", tag=again.headers["etag"])).status_code == 304


def snapshot(id: int, parent: int | None) -> dict[str, Any]:
    body = {
        "snapshot-id": id,
        "sequence-number": id,
        "timestamp-ms": make.START_MS + id,
        "manifest-list": f"file:///x/{id}.avro",
        "summary": {"operation": "append"},
    }
    return {"action": "add-snapshot", "snapshot": body | ({} if parent is None else {"parent-snapshot-id": parent})}


def set_main(id: int) -> dict[str, Any]:
    return {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": id}


async def test_snapshots_without_a_ref_can_be_omitted(lake: Lake) -> None:
    await lake.create("orders")
    for id in (1, 2, 3):
        assert (await lake.commit("orders", snapshot(id, id - 1 or None), set_main(id))).status_code == 200
    whole = (await lake.load("orders")).json()["metadata"]
    few = (await lake.load("orders", snapshots="refs")).json()["metadata"]
    assert [len(each["snapshots"]) for each in (whole, few)] == [3, 1]
    assert {**few, "snapshots": []} == {**whole, "snapshots": []}
    refused(await lake.load("orders", snapshots="some"), 400, "BadRequestException", "snapshots")


async def test_each_version_records_its_kind_of_change(lake: Lake) -> None:
    await lake.create("orders")
    await lake.commit("orders", snapshot(1, None), set_main(1))
    await lake.commit("orders", set_property("a"))
    table = (await find_chain(lake.house.ledger, namespace("lake", "sales"))).chain[-1]
    (orders,) = (await lake.house.ledger.children(table.id, Shelf.RELATION)).items
    versions = await lake.house.ledger.versions(orders.id, "main")
    assert [each.operation for each in versions] == ["metadata", "append", "metadata"]
    assert [each.details.get("snapshot_id") for each in versions] == [None, 1, 1]


async def stage(lake: Lake, name: str) -> dict[str, Any]:
    answer = await lake.create(name, stage=True)
    assert answer.status_code == 200
    assert "metadata-location" not in answer.json()
    staged: dict[str, Any] = answer.json()["metadata"]
    return staged


def building(staged: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"action": "assign-uuid", "uuid": staged["table-uuid"]},
        {"action": "upgrade-format-version", "format-version": 2},
        {"action": "add-schema", "schema": staged["schemas"][0]},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": staged["partition-specs"][0]},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": staged["sort-orders"][0]},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-location", "location": staged["location"]},
    ]


CREATE = [{"type": "assert-create"}]


async def test_a_staged_table_exists_after_its_first_commit(lake: Lake) -> None:
    staged = await stage(lake, "orders")
    refused(await lake.load("orders"), 404, "NoSuchTableException")
    assert lake.metadata_files() == set()
    made = await lake.commit("orders", *building(staged), set_property("a"), requires=CREATE)
    assert made.status_code == 200, made.text
    found = await lake.metadata("orders")
    assert (found["table-uuid"], found["location"]) == (staged["table-uuid"], staged["location"])
    assert found["properties"] == {"a": "1"}


async def test_of_two_staging_tables_with_one_name_the_second_commit_conflicts(lake: Lake) -> None:
    first, second = await stage(lake, "orders"), await stage(lake, "orders")
    assert (await lake.commit("orders", *building(first), requires=CREATE)).status_code == 200
    refused(await lake.commit("orders", *building(second), requires=CREATE), 409, "CommitFailedException", "exists")
    assert len(lake.metadata_files()) == 1
    refused(await lake.create("orders", stage=True), 409, "AlreadyExistsException")


async def test_a_staged_table_cannot_use_the_location_of_another(lake: Lake) -> None:
    taken = (await lake.create("orders")).json()["metadata"]["location"]
    staged = await stage(lake, "copies")
    stolen = [*building(staged)[:-1], {"action": "set-location", "location": taken}]
    refused(await lake.commit("copies", *stolen, requires=CREATE), 400, "BadRequestException", "own storage")
    again = building({**staged, "table-uuid": (await lake.metadata("orders"))["table-uuid"], "location": taken})
    refused(await lake.commit("copies", *again, requires=CREATE), 400, "BadRequestException")
    assert len(lake.metadata_files()) == 1


@pytest.mark.parametrize(
    "location", ["s3://bucket/x", "file:///etc/x", "relative/x", "file:///data/../x", "ftp://x", ""]
)
async def test_a_location_that_this_server_cannot_use_is_refused(lake: Lake, location: str) -> None:
    refused(await lake.create("orders", location=location), 400, "BadRequestException", "location")


async def test_an_etag_from_before_a_restore_does_not_match_afterwards(tmp_path: Path) -> None:
    """Both are version 1 of the table, with different properties."""
    data, backup, known = tmp_path / "data", tmp_path / "backup", None
    async with open_house(data) as house:
        await house.console.make("lake")
        lake = Lake(house, data)
        await lake.create_space(*SPACE)
        await lake.create("orders")
    shutil.copytree(data, backup)
    for change in ("lost", "kept"):
        shutil.rmtree(data)
        shutil.copytree(backup, data)
        lake.house.ports.local.clear_caches()
        async with open_house(data) as house:
            lake = Lake(house, data)
            await lake.commit("orders", set_property(change))
            answer = await lake.load("orders", tag=known)
            assert answer.status_code == 200
            assert answer.json()["metadata"]["properties"] == {**PERSISTED, change: "1"}
            known = answer.headers["etag"]


async def test_a_table_dropped_without_purge_can_be_registered_again(lake: Lake) -> None:
    made = (await lake.create("orders")).json()
    await lake.ask("DELETE", to_table("orders"))
    lake.house.clock.advance(DAYS_8_MS)
    await purge_due(lake.house.ports)
    assert len(lake.metadata_files()) == 1
    body = {"name": "again", "metadata-location": made["metadata-location"]}
    back = await lake.ask("POST", f"{to_space('sales')}/register", body)
    assert back.json() == made
    assert (await lake.commit("again", set_property("a"))).status_code == 200
    again = await lake.ask("POST", f"{to_space('sales')}/register", {**body, "name": "twice"})
    refused(again, 400, "BadRequestException", "overlaps")


async def test_a_dropped_table_can_be_registered_during_its_hold(lake: Lake) -> None:
    made = (await lake.create("orders")).json()
    await lake.ask("DELETE", to_table("orders"))
    body = {"name": "orders", "metadata-location": made["metadata-location"]}
    assert (await lake.ask("POST", f"{to_space('sales')}/register", body)).status_code == 200


async def test_a_table_can_be_reset_to_another_of_its_metadata_files(lake: Lake) -> None:
    first = (await lake.create("orders")).json()
    await lake.commit("orders", set_property("a"))
    body = {"name": "orders", "metadata-location": first["metadata-location"]}
    refused(await lake.ask("POST", f"{to_space('sales')}/register", body), 409, "AlreadyExistsException")
    back = await lake.ask("POST", f"{to_space('sales')}/register", {**body, "overwrite": True})
    assert back.json() == first
    assert (await lake.metadata("orders"))["properties"] == PERSISTED
    other = (await lake.create("other")).json()["metadata-location"]
    stolen = await lake.ask(
        "POST", f"{to_space('sales')}/register", {"name": "orders", "metadata-location": other, "overwrite": True}
    )
    refused(stolen, 400, "BadRequestException", "drop 'orders' first")


async def test_a_file_that_is_not_metadata_cannot_be_registered(lake: Lake) -> None:
    (lake.managed / "x").mkdir(parents=True)
    (lake.managed / "x" / "a.json").write_text("[1]")
    (lake.managed / "x" / "b.json").write_text("{}")
    (lake.managed / "x" / "c.json").write_bytes(b"\x1f\x8bnot gzip")
    root = (await lake.create("o")).json()["metadata"]["location"].partition("/tables/")[0]
    for name in ("a.json", "b.json", "c.json", "none.json"):
        body = {"name": "t", "metadata-location": f"{root}/x/{name}"}
        refused(await lake.ask("POST", f"{to_space('sales')}/register", body), 400, "BadRequestException")
    for location in ("file:///etc/passwd", "nonsense", "", "s3://b/metadata.json"):
        body = {"name": "t", "metadata-location": location}
        refused(await lake.ask("POST", f"{to_space('sales')}/register", body), 400, "BadRequestException")


async def test_metadata_with_a_location_outside_the_allowed_ones_cannot_be_registered(lake: Lake, own: str) -> None:
    """A copy that still names the original location: no commit to it could be written."""
    made = (await lake.create("orders")).json()["metadata"]
    copy = Path(own.removeprefix("file://")) / "copy.metadata.json"
    body = {"name": "copy", "metadata-location": f"{own}/copy.metadata.json"}
    for location, status in (("file:///elsewhere/orders", 400), (f"{own}/orders", 200)):
        copy.write_bytes(msgspec.json.encode(made | {"location": location}))
        answer = await lake.ask("POST", f"{to_space('sales')}/register", body)
        assert answer.status_code == status, answer.text
    assert (await lake.commit("copy", set_property("a"))).status_code == 200


async def test_files_are_deleted_after_the_hold_if_purge_is_requested(lake: Lake) -> None:
    await lake.create("orders")
    await lake.ask("DELETE", to_table("orders"), purgeRequested=True)
    await purge_due(lake.house.ports)
    assert len(lake.metadata_files()) == 1
    lake.house.clock.advance(DAYS_8_MS)
    await purge_due(lake.house.ports)
    assert lake.metadata_files() == set()


async def test_a_table_can_be_created_in_an_allowed_location(lake: Lake, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    force_setattr(lake.house.ports, "storage", LocalStorage(lake.managed, own))
    for purge in (True, False, True):  # with or without purge, the location can be reused immediately
        made = (await lake.create("orders", location=f"file:{own}/t/")).json()["metadata"]
        assert made["location"] == f"file:{own}/t"
        inside = await lake.create("inside", location=f"{own}/t/more")
        refused(inside, 400, "BadRequestException", "overlaps")
        await lake.ask("DELETE", to_table("orders"), purgeRequested=purge)
        assert (own / "t" / "metadata").exists()
    lake.house.clock.advance(DAYS_8_MS)
    await purge_due(lake.house.ports)
    assert len([*own.rglob("*.json")]) == 1  # of the table that was dropped without purge


async def test_a_table_can_be_renamed_into_another_namespace(lake: Lake) -> None:
    await lake.create_space("hr")
    made = (await lake.create("orders")).json()
    await lake.create("other")

    def body(name: str, *levels: str) -> dict[str, Any]:
        source = {"namespace": ["sales"], "name": "orders"}
        return {"source": source, "destination": {"namespace": levels, "name": name}}

    taken = await lake.ask("POST", "/tables/rename", body("other", "sales"))
    refused(taken, 409, "AlreadyExistsException", "Cannot rename sales.orders to sales.other. Table already exists")
    refused(await lake.ask("POST", "/tables/rename", body("o", "none")), 404, "NoSuchNamespaceException")
    assert (await lake.ask("POST", "/tables/rename", body("o2", "hr"))).status_code == 204
    assert (await lake.ask("GET", to_table("o2", "hr"))).json() == made
    refused(await lake.ask("POST", "/tables/rename", body("o3", "hr")), 404, "NoSuchTableException")


async def test_a_rename_may_change_only_the_capitalisation(lake: Lake) -> None:
    await lake.create("orders")

    ends = {
        "source": {"namespace": ["sales"], "name": "orders"},
        "destination": {"namespace": ["sales"], "name": "Orders"},
    }
    assert (await lake.ask("POST", "/tables/rename", ends)).status_code == 204
    listed = (await lake.ask("GET", "/namespaces/sales/tables")).json()["identifiers"]
    assert [each["name"] for each in listed] == ["Orders"]
    refused(await lake.ask("POST", "/tables/rename", ends), 409, "AlreadyExistsException")


async def test_the_record_of_a_table_follows_its_metadata(lake: Lake) -> None:
    await lake.create("orders", properties={"comment": "what was ordered"})
    wider = {**EXAMPLE_SCHEMA, "fields": [*EXAMPLE_SCHEMA["fields"], column(3, "tags", "string")]}
    listed = {"type": "list", "element-id": 5, "element": "long", "element-required": True}
    wider["fields"].append(column(4, "ids", listed))
    await lake.commit(
        "orders", {"action": "add-schema", "schema": wider}, {"action": "set-current-schema", "schema-id": -1}
    )
    record = (await lake.house.console.get("/catalogs/lake/namespaces/sales/tables/orders")).json()
    assert [each["type_text"] for each in record["columns"]] == ["bigint", "string", "string", "array<bigint>"]
    assert (record["format"], record["comment"], record["head"]["version"]) == ("iceberg", "what was ordered", 1)


def column(id: int, name: str, kind: Any) -> dict[str, Any]:
    return {"id": id, "name": name, "required": False, "type": kind}


async def test_files_on_local_disk_need_no_credentials(lake: Lake) -> None:
    await lake.create("orders")
    assert (await lake.ask("GET", f"{to_table('orders')}/credentials")).json() == {"storage-credentials": []}


async def test_an_unregistered_table_can_be_registered_elsewhere(lake: Lake) -> None:
    await lake.create("orders")
    last = (await lake.commit("orders", set_property("a"))).json()
    key = str(uuid4())
    for _ in range(2):
        assert (await lake.ask("POST", f"{to_table('orders')}/unregister", key=key)).json() == last
    refused(await lake.commit("orders", set_property("b")), 404, "NoSuchTableException")
    refused(await lake.ask("POST", f"{to_table('orders')}/unregister"), 404, "NoSuchTableException")
    await lake.create_space("hr")
    body = {"name": "taken", "metadata-location": last["metadata-location"]}
    assert (await lake.ask("POST", f"{to_space('hr')}/register", body)).json() == last


async def test_the_metadata_of_an_unregistered_table_has_every_successful_commit(lake: Lake) -> None:
    for name in "abcdefgh":
        await lake.create(name)
        requests = [lake.commit(name, snapshot(id, None)) for id in range(6)]
        requests.insert(3, lake.ask("POST", f"{to_table(name)}/unregister"))
        answers = await asyncio.gather(*requests)
        unregistered = answers.pop(3).json()["metadata"]["snapshots"]
        succeeded = [id for id, answer in enumerate(answers) if answer.status_code == 200]
        assert sorted(each["snapshot-id"] for each in unregistered) == succeeded


async def test_reports_on_commits_and_scans_are_stored(lake: Lake) -> None:
    await lake.create("orders")
    await lake.commit("orders", snapshot(7, None), set_main(7))
    await lake.commit("orders", set_property("a"))
    for kind, id, size in (
        ("scan-report", 7, 1),
        ("commit-report", 9, 2),
        ("commit-report", 7, 3),
        ("commit-report", 7, 4),
    ):
        report = {"report-type": kind, "table-name": "orders", "snapshot-id": id, "metrics": {"added": size}}
        assert (await lake.ask("POST", f"{to_table('orders')}/metrics", report)).status_code == 204
    stored = (await lake.house.console.get("/catalogs/lake/namespaces/sales/tables/orders/reports")).json()["items"]
    assert [(each["version"], each["report"]["metrics"]) for each in stored] == [(1, {"added": 3})]
    reports = "/catalogs/lake/namespaces/sales/tables/orders/reports"
    [scan] = (await lake.house.console.get(reports, kind="scan")).json()["items"]
    assert (scan["version"], scan["report"]["metrics"]) == (1, {"added": 1})
    wrong = {"report-type": "gossip", "table-name": "orders", "snapshot-id": 7}
    answer = await lake.ask("POST", f"{to_table('orders')}/metrics", wrong)
    refused(answer, 400, "BadRequestException", "report-type")


async def test_reports_on_a_staged_table_are_accepted_and_not_stored(lake: Lake) -> None:
    report = {"report-type": "commit-report", "table-name": "orders", "snapshot-id": 7}
    refused(await lake.ask("POST", f"{to_table('orders')}/metrics", report), 404, "NoSuchTableException")
    for name in ("others", "Orders", "orders"):
        done(await lake.create(name, stage=True))
    answer = await lake.ask("POST", f"{to_table('orders')}/metrics", report)
    assert (answer.status_code, answer.content) == (204, b"")
    wrong = {**report, "report-type": "gossip"}
    refused(await lake.ask("POST", f"{to_table('orders')}/metrics", wrong), 400, "BadRequestException", "report-type")
    refused(await lake.ask("POST", f"{to_table('nothing')}/metrics", report), 404, "NoSuchTableException")
    await lake.create_space("elsewhere")
    elsewhere = "/namespaces/elsewhere/tables/orders/metrics"
    refused(await lake.ask("POST", elsewhere, report), 404, "NoSuchTableException")
    done(await lake.create("orders"))
    assert (await lake.ask("POST", f"{to_table('orders')}/metrics", report)).status_code == 204
