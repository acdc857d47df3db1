"""Delta tables through the Iceberg API: read-only, at their newest version, converted by the server or a client."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from moorage import fresh
from moorage.core.callers import SYSTEM
from moorage.core.entries import Draft, RaiseFloor
from moorage.core.ids import SecurableId
from moorage.core.job_options import ExpireOptions
from moorage.formats.iceberg.table_metadata import new_table
from moorage.testing import delta_writer as write
from moorage.testing.builders import START_MS
from moorage.usecases.ports import Errand
from moorage.usecases.uniform import reading
from moorage.usecases.upkeep.convert import convert_due
from tests.api.delta.delta_client import DeltaClient, Staged, ok
from tests.api.house import House
from tests.api.iceberg.conversions import a_file, block_of, convert_files, store_metadata
from tests.api.iceberg.lake import PERSISTED, Lake, refused, set_property, to_space, to_table
from tests.api.iceberg.planning import paths

ON = {"delta.universalFormat.enabledFormats": "iceberg"}
NO_FILES = {"txn": {"appId": "test", "version": 1}}
OUTSIDE = "file:///elsewhere/1.avro"

Document = dict[str, Any]


class DeltaLake(Lake):
    """The Delta table `lake.sea.t`, as Iceberg clients see it."""

    def __init__(self, house: House, data: Path) -> None:
        super().__init__(house, data)
        self.delta = DeltaClient(house.console.http)

    async def make(self) -> Staged:
        await self.delta.furnish()
        return await self.delta.make(properties=ON)

    async def commit_version(
        self, table: Staged, version: int, *actions: Document, location: str | None = None
    ) -> None:
        """Commit a Delta version, with its conversion if a location is given. Without actions, it changes no file."""
        uniform: Document = {} if location is None else {"uniform": {"iceberg": block_of(location, version)}}
        ok(await self.delta.commit(table, table.stage(version, *(actions or (NO_FILES,))), **uniform))

    async def look(self, verb: str = "GET", **given: Any) -> httpx.Response:
        return await self.ask(verb, to_table("t", "sea"), **given)

    async def listed(self) -> list[Document]:
        found: list[Document] = (await self.ask("GET", f"{to_space('sea')}/tables")).json()["identifiers"]
        return found


@pytest.fixture
async def lake(house: House, tmp_path: Path) -> DeltaLake:
    return DeltaLake(house, tmp_path / "data")


def converted_metadata(table: Staged, version: int, **changes: Any) -> Document:
    """The metadata that Delta's converter would write."""
    made = new_table(
        uuid=table.id,
        location=table.location,
        schema={"type": "struct", "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}]},
        spec=None,
        order=None,
        properties={"delta-version": str(version)},
        now_ms=START_MS + version,
    )
    return {**made, **changes}


def snapshot(path: str) -> Document:
    return {"snapshot-id": 1, "sequence-number": 0, "timestamp-ms": START_MS, "manifest-list": path}


def convert(table: Staged, version: int, *files: Document) -> str:
    """Write the metadata of a version with these files, and return its location."""
    doc = convert_files(table, version, files) if files else converted_metadata(table, version)
    return store_metadata(table, version, doc)


def versions_in(answer: httpx.Response) -> tuple[list[int], str]:
    """The versions that have a snapshot, and the version that the metadata describes."""
    metadata = ok(answer)["metadata"]
    return [each["sequence-number"] for each in metadata["snapshots"]], metadata["properties"]["delta-version"]


async def test_a_delta_table_is_visible_from_its_first_version_on(lake: DeltaLake) -> None:
    table = await lake.make()
    assert await lake.listed() == [{"namespace": ["sea"], "name": "t"}]
    assert (await lake.look("HEAD")).status_code == 204
    assert versions_in(await lake.look()) == ([0], "0")
    await lake.commit_version(table, 1, a_file())
    await lake.commit_version(table, 2, a_file())
    loaded = await lake.look()
    assert versions_in(loaded) == ([0, 1, 2], "2")
    assert loaded.json()["metadata"]["table-uuid"] == table.id
    assert loaded.json()["metadata"]["snapshots"][-1]["summary"]["total-data-files"] == "2"


async def test_the_metadata_that_a_client_wrote_is_served_unchanged(lake: DeltaLake) -> None:
    table = await lake.make()
    location = convert(table, 1)
    await lake.commit_version(table, 1, location=location)
    properties = {**PERSISTED, "delta-version": "1", "gc.enabled": "false"}
    assert (await lake.look()).json() == {
        "metadata-location": location,
        "metadata": {**converted_metadata(table, 1), "properties": properties},
    }


async def test_the_server_converts_the_version_after_one_that_a_client_converted(lake: DeltaLake) -> None:
    table = await lake.make()
    files = [a_file() for _ in range(3)]
    await lake.commit_version(table, 1, files[0], location=convert(table, 1, files[0]))
    tag = (await lake.look()).headers["etag"]
    await lake.commit_version(table, 2, files[1])
    after = await lake.look(tag=tag)
    assert versions_in(after)[1] == "2"
    await lake.commit_version(table, 3, files[2], location=convert(table, 3, *files))
    assert (await lake.look()).json()["metadata-location"].endswith("/metadata/v3.metadata.json")
    await lake.commit_version(table, 4, a_file())
    assert versions_in(await lake.look()) == ([2, 3, 4], "4")


async def test_a_table_is_visible_if_its_catalog_asks_for_it(lake: DeltaLake) -> None:
    await lake.delta.furnish()
    await lake.delta.make()
    assert await lake.listed() == []
    refused(await lake.look(), 404, "NoSuchTableException", "sea.t")
    unity = "/api/2.1/unity-catalog/catalogs/lake"
    ok(await lake.house.console.http.patch(unity, json={"properties": {"moorage.uniform": "iceberg"}}))
    assert await lake.listed() == [{"namespace": ["sea"], "name": "t"}]
    assert versions_in(await lake.look()) == ([0], "0")
    schema = "/api/2.1/unity-catalog/schemas/lake.sea"
    ok(await lake.house.console.http.patch(schema, json={"properties": {"moorage.uniform": "off"}}))
    assert await lake.listed() == []
    refused(await lake.look(), 404, "NoSuchTableException", "sea.t")


async def test_a_table_decides_for_itself_whether_iceberg_clients_see_it(lake: DeltaLake) -> None:
    await lake.delta.furnish()
    table = await lake.delta.make()
    for version, (setting, is_visible) in enumerate((("iceberg", True), ("off", False), ("Iceberg", True)), 1):
        changed = write.metadata(write.configuration(table.id, **{"moorage.uniform": setting}))
        await lake.commit_version(table, version, changed)
        assert (await lake.look()).status_code == (200 if is_visible else 404)
    assert versions_in(await lake.look())[1] == "3"


async def test_the_owner_states_the_time_zone_of_partition_values_without_one(lake: DeltaLake) -> None:
    await lake.delta.furnish()
    described = {"columns": (column("id", "long"), column("at", "timestamp")), "partition_columns": ("at",)}
    table = await lake.delta.make(properties=ON, described=described)
    file = write.add(partitionValues={"at": "2024-06-01 12:34:56"}, stats='{"numRecords":3}')
    await lake.commit_version(table, 1, file)
    refused(await lake.look(), 406, "UnsupportedOperationException", "moorage.uniform.time-zone")
    unity = "/api/2.1/unity-catalog/catalogs/lake"
    ok(await lake.house.console.http.patch(unity, json={"properties": {"moorage.uniform.time-zone": "Europe/Oslo"}}))
    await lake.commit_version(table, 2, write.add(partitionValues={"at": None}, stats='{"numRecords":3}'))
    assert versions_in(await lake.look()) == ([2], "2")


async def test_rows_that_the_log_does_not_count_are_counted_from_the_ends_of_data_files(
    lake: DeltaLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "_MAX_FILE_BYTES", 100_000)
    table = await lake.make()
    for version, stats in enumerate((None, "{}", '{"numRecords":null}'), 1):
        file = table.folder / f"large {version}.parquet"
        pq.write_table(pa.table({"id": pa.array(range(100_000), pa.int64())}), file, compression="none")
        assert file.stat().st_size > 100_000
        path = f"large%20{version}.parquet"
        await lake.commit_version(table, version, write.add(path, size=file.stat().st_size, stats=stats))
        summary = ok(await lake.look())["metadata"]["snapshots"][-1]["summary"]
        assert summary["total-records"] == str(version * 100_000)
    (table.folder / "not.parquet").write_bytes(b"not")
    await lake.commit_version(table, 4, write.add("not.parquet", size=3))
    refused(await lake.look(), 406, "UnsupportedOperationException", "its footer cannot be read")


async def test_a_conversion_of_an_unratified_version_is_not_visible(lake: DeltaLake) -> None:
    await lake.delta.furnish()
    v1 = DeltaClient(lake.house.console.http, "v1")
    table = await v1.stage()
    table.write_first(properties=ON)
    file = a_file()
    location = convert(table, 1, file)
    block = {"metadata-location": location, "converted-delta-version": 1, "converted-delta-timestamp": START_MS}
    ok(await v1.create(table, properties=ON, uniform={"iceberg": block}))
    assert versions_in(await lake.look()) == ([0], "0")
    await lake.commit_version(table, 1, file)
    assert (await lake.look()).json()["metadata-location"] == location


async def test_a_delta_table_cannot_be_changed_through_iceberg(lake: DeltaLake) -> None:
    table = await lake.make()
    await lake.commit_version(table, 1, location=convert(table, 1))
    itself = {"namespace": ["sea"], "name": "t"}
    changes = {"requirements": [], "updates": [set_property("a")]}
    for answer in (
        await lake.look("POST", body=changes),
        await lake.ask("POST", "/transactions/commit", {"table-changes": [{**changes, "identifier": itself}]}),
        await lake.ask("POST", "/tables/rename", {"source": itself, "destination": {**itself, "name": "u"}}),
        await lake.look("DELETE"),
        await lake.look("DELETE", purgeRequested=True),
        await lake.ask("POST", f"{to_table('t', 'sea')}/unregister"),
    ):
        refused(answer, 406, "UnsupportedOperationException", "sea.t is a Delta table")
    again = {"name": "t", "metadata-location": convert(table, 2), "overwrite": True}
    refused(await lake.ask("POST", f"{to_space('sea')}/register", again), 409, "AlreadyExistsException")
    refused(await lake.create("t", space=("sea",)), 409, "AlreadyExistsException")
    assert (await lake.look()).json()["metadata"]["properties"]["delta-version"] == "1"
    assert await lake.delta.announced(table) == ([1], 1)


async def test_a_refused_change_of_a_delta_table_stays_refused_under_its_key(
    lake: DeltaLake,
) -> None:
    table = await lake.make()
    await lake.commit_version(table, 1, location=convert(table, 1))
    key, changes = str(uuid4()), {"requirements": [], "updates": [set_property("a")]}
    for _ in range(2):
        answer = await lake.ask("POST", to_table("t", "sea"), changes, key=key)
        refused(answer, 406, "UnsupportedOperationException", "sea.t is a Delta table")
        drop = {"op": "drop", "kind": "table", "path": ["lake", "sea", "t"]}
        await lake.house.console.post("/transactions", {"operations": [drop]})
    refused(await lake.ask("POST", to_table("t", "sea"), changes, key=str(uuid4())), 404, "NoSuchTableException")


async def test_each_conversion_is_visible_immediately_and_has_its_own_etag(lake: DeltaLake) -> None:
    table = await lake.make()
    tags = set()
    for version in (1, 2):
        await lake.commit_version(table, version, location=convert(table, version))
        loaded = await lake.look()
        assert loaded.json()["metadata"]["properties"]["delta-version"] == str(version)
        refs = await lake.look(snapshots="refs")
        assert refs.json() == loaded.json()
        for answer, query in ((loaded, {}), (refs, {"snapshots": "refs"})):
            tags.add(answer.headers["etag"])
            known = await lake.look(tag=answer.headers["etag"], **query)
            assert (known.status_code, known.content) == (304, b"")
    assert len(tags) == 4


async def test_the_etag_of_a_table_that_the_server_converts_changes_with_each_version(lake: DeltaLake) -> None:
    table = await lake.make()
    tag = (await lake.look()).headers["etag"]
    for version in (1, 2):
        assert (await lake.look(tag=tag)).status_code == 304
        await lake.commit_version(table, version, a_file())
        loaded = await lake.look(tag=tag)
        assert versions_in(loaded)[1] == str(version)
        assert loaded.headers["etag"] != tag
        tag = loaded.headers["etag"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        pytest.param(lambda table: b"{", "not an Iceberg metadata file", id="no JSON"),
        pytest.param(lambda table: {"format-version": 2}, "location", id="no metadata"),
        pytest.param(lambda table: converted_metadata(table, 7), "describes version 7", id="another version"),
        pytest.param(lambda table: converted_metadata(table, 1, properties={}), "delta-version", id="no version"),
        pytest.param(lambda table: converted_metadata(table, 1, location="file:///"), "", id="no location"),
        pytest.param(
            lambda table: converted_metadata(table, 1, location=f"{table.location}x"), "outside", id="another location"
        ),
        pytest.param(
            lambda table: converted_metadata(table, 1, snapshots=[snapshot(OUTSIDE)]),
            "outside",
            id="a list outside the table",
        ),
        pytest.param(
            lambda table: converted_metadata(table, 1, snapshots=[snapshot(f"{table.location}/../x/1.avro")]),
            "has a '.' or '..' segment",
            id="a list with a parent segment",
        ),
    ],
)
async def test_a_file_that_differs_from_what_the_commit_states_is_refused(
    lake: DeltaLake, change: Callable[[Staged], Document | bytes], words: str
) -> None:
    table = await lake.make()
    location = store_metadata(table, 1, change(table))
    answer = await lake.delta.commit(table, table.stage(1), uniform={"iceberg": block_of(location, 1)})
    assert answer.status_code == 400
    assert "metadata_location" in answer.json()["message"]
    assert words in answer.json()["message"]
    assert await lake.delta.announced(table) == ([], 0)


async def test_the_server_converts_a_version_whose_stated_file_is_missing(lake: DeltaLake, tmp_path: Path) -> None:
    table = await lake.make()
    await lake.commit_version(table, 1, a_file(), location=f"{table.location}/metadata/v1.metadata.json")
    assert versions_in(await lake.look()) == ([1], "1")
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "v2.metadata.json").write_bytes(msgspec.json.encode(converted_metadata(table, 2)))
    (table.folder / "metadata").symlink_to(tmp_path / "secret")
    linked = block_of(f"{table.location}/metadata/v2.metadata.json", 2)
    answer = await lake.delta.commit(table, table.stage(2, a_file()), uniform={"iceberg": linked})
    assert answer.status_code == 400
    assert "links are not followed" in answer.json()["message"]


async def test_a_table_that_is_no_longer_converted_is_not_visible(lake: DeltaLake) -> None:
    table = await lake.make()
    await lake.commit_version(table, 1, location=convert(table, 1))
    await lake.commit_version(table, 2, write.metadata(write.configuration(table.id)))
    assert await lake.listed() == []
    refused(await lake.look(), 404, "NoSuchTableException")


async def test_scans_of_a_converted_table_are_planned_for_a_filter_a_version_and_a_range_of_versions(
    lake: DeltaLake,
) -> None:
    table = await lake.make()
    for version in (1, 2, 3):
        bounds = {"numRecords": 3, "minValues": {"id": version * 10}, "maxValues": {"id": version * 10 + 9}}
        file = write.add(f"{version}.parquet", stats=msgspec.json.encode({**bounds, "nullCount": {"id": 0}}).decode())
        await lake.commit_version(table, version, file)
        await lake.look()
    snapshots = ok(await lake.look())["metadata"]["snapshots"]
    ids = {each["sequence-number"]: each["snapshot-id"] for each in snapshots}

    async def plan(**request: Any) -> list[str]:
        answer = await lake.ask("POST", f"{to_table('t', 'sea')}/plan", request)
        return sorted(path.rpartition("/")[2] for path in paths(answer))

    assert await plan() == ["1.parquet", "2.parquet", "3.parquet"]
    assert await plan(filter={"type": "gt-eq", "term": "id", "value": 25}) == ["2.parquet", "3.parquet"]
    assert await plan(**{"snapshot-id": ids[1]}) == ["1.parquet"]
    assert await plan(**{"start-snapshot-id": ids[1], "end-snapshot-id": ids[3]}) == ["2.parquet", "3.parquet"]
    assert await plan(**{"start-snapshot-id": ids[1], "end-snapshot-id": ids[2]}) == ["2.parquet"]
    await lake.commit_version(table, 4, write.remove("1.parquet"))
    assert await plan() == ["2.parquet", "3.parquet"]
    assert await plan(**{"snapshot-id": ids[3]}) == ["1.parquet", "2.parquet", "3.parquet"]


# --- versions that Iceberg cannot express -----------------------------------------------------------------


def column(name: str, kind: Any, **metadata: Any) -> Document:
    return {"name": name, "type": kind, "nullable": True, "metadata": metadata}


async def test_a_version_that_iceberg_cannot_express_is_refused_with_the_reason(lake: DeltaLake) -> None:
    table = await lake.make()
    await lake.commit_version(table, 1, a_file())
    assert versions_in(await lake.look())[1] == "1"
    properties = write.configuration(table.id, **ON)
    changes = [{"fromType": "integer", "toType": "double"}]
    widened = write.metadata(properties, (column("id", "double", **{"delta.typeChanges": changes}),))
    await lake.commit_version(table, 2, a_file())
    await lake.commit_version(table, 3, widened)
    await lake.commit_version(table, 4, a_file())
    answer = await lake.look()
    refused(answer, 406, "UnsupportedOperationException", "from integer to double")
    refused(answer, 406, "UnsupportedOperationException", "the last version that can be is 2")
    shown = ok(await DeltaClient(lake.house.console.http, "v1").load())["uniform"]["iceberg"]
    assert shown["converted-delta-version"] == 2
    assert shown["converted-delta-timestamp"] == START_MS + 2
    document = msgspec.json.decode(write.folder_of(shown["metadata-location"]).read_bytes())
    assert [each["sequence-number"] for each in document["snapshots"]] == [1, 2]
    health = ok(await lake.house.console.get("/catalogs/lake/namespaces/sea/tables/t/health"))
    reasons = [each["reason"] for each in health["findings"] if each["problem"] == "not_converted"]
    assert len(reasons) == 1
    assert "from integer to double" in reasons[0]
    feed = ok(await lake.house.console.get("/feed", after=0, limit=1000))
    assert any("from integer to double" in str(entry) for entry in feed["entries"])
    await lake.commit_version(table, 5, write.metadata(properties))
    assert versions_in(await lake.look()) == ([5], "5")


async def test_a_table_that_was_never_expressible_says_so(lake: DeltaLake) -> None:
    await lake.delta.furnish()
    columns = (column("id", "long"), column("lasts", "interval year to month"))
    await lake.delta.make(properties=ON, described={"columns": columns})
    refused(await lake.look(), 406, "UnsupportedOperationException", "interval year to month")
    assert "uniform" not in ok(await DeltaClient(lake.house.console.http, "v1").load())


async def test_history_begins_at_the_floor_of_the_delta_table(lake: DeltaLake) -> None:
    table = await lake.make()
    for version in (1, 2, 3):
        await lake.commit_version(table, version, a_file())
        await lake.look()
    floor = Draft(
        id=fresh.draft_id(),
        caller="test",
        api="test",
        request="test",
        changes=(RaiseFloor(table=SecurableId(table.id), version=2),),
    )
    tag = (await lake.look()).headers["etag"]
    await lake.house.ports.ledger.append(floor)
    assert versions_in(await lake.look(tag=tag)) == ([2, 3], "3")
    await lake.commit_version(table, 4, a_file())
    assert versions_in(await lake.look()) == ([2, 3, 4], "4")


@pytest.mark.timeout(300)  # 500 commits, and their conversions
async def test_the_metadata_has_the_newest_500_versions_at_most(lake: DeltaLake) -> None:
    table = await lake.make()
    await lake.look()
    for version in range(1, 501):
        await lake.commit_version(table, version, a_file())
        if version % 10 == 0:
            ok(await lake.look())
    assert versions_in(await lake.look()) == (list(range(1, 501)), "500")


async def test_files_of_expired_versions_leave_the_iceberg_metadata_and_the_folder(lake: DeltaLake) -> None:
    await lake.delta.furnish()
    table = await lake.delta.make(properties={**ON, "delta.deletedFileRetentionDuration": "interval 0 days"})
    first = a_file()
    for version, actions in enumerate([(first,), (a_file(),), (write.remove(first["add"]["path"]), a_file())], 1):
        await lake.commit_version(table, version, *actions)
        await lake.look()
    ports = lake.house.ports
    chain = (await ports.ledger.lineage(SecurableId(table.id))).chain
    delta = ports.formats.of(chain[-1])
    errand = Errand(caller=SYSTEM, api="test", request="expire")
    lake.house.clock.advance(60_000)
    expired = await delta.announce_expiry(ports, errand, chain[-1], ExpireOptions(keep_last=1))
    assert expired.floor == 3
    assert versions_in(await lake.look()) == ([3], "3")
    await lake.commit_version(table, 4, a_file())
    loaded = await lake.look()
    assert versions_in(loaded) == ([3, 4], "4")
    folder = table.folder / "_iceberg"
    for file in folder.iterdir():
        os.utime(file, (1, 1))
    await delta.sweep(ports, chain[-1], "main", 4)
    lists = {each["manifest-list"].rpartition("/")[2] for each in loaded.json()["metadata"]["snapshots"]}
    assert {file.name for file in folder.glob("*-list.avro")} == lists
    assert not list(folder.glob("00001-*.avro")), "the manifest of version 1 was rewritten without the removed file"
    assert versions_in(await lake.look()) == ([3, 4], "4")


async def test_a_chore_converts_new_versions_and_the_files_of_a_load_are_recorded_once(lake: DeltaLake) -> None:
    table = await lake.make()
    await lake.commit_version(table, 1, a_file())
    assert await convert_due(lake.house.ports) == 1
    assert await convert_due(lake.house.ports) == 0
    files = sorted((table.folder / "_iceberg").iterdir())
    assert versions_in(await lake.look()) == ([1], "1")
    assert sorted((table.folder / "_iceberg").iterdir()) == files
    rows = await lake.house.ports.ledger.versions(SecurableId(table.id), "iceberg")
    assert [(row.version, row.details) for row in rows] == [(1, {"converted_delta_version": 1})]


async def test_a_sweep_deletes_what_the_newest_conversion_does_not_need(lake: DeltaLake) -> None:
    table = await lake.make()
    folder = table.folder / "_iceberg"
    await lake.look()
    for version in range(1, 4):
        await lake.commit_version(table, version, a_file())
        await lake.look()
    kept = sorted(folder.iterdir())
    (folder / "00001-lost-m0.avro").write_bytes(b"of a conversion that lost a race")
    (folder / "00001-new-m0.avro").write_bytes(b"of a conversion that is not recorded yet")
    chain = (await lake.house.ports.ledger.lineage(SecurableId(table.id))).chain
    for file in folder.iterdir():
        at_s = lake.house.ports.now_ms() / 1000 if "-new-" in file.name else 1
        os.utime(file, (at_s, at_s))
    await lake.house.ports.formats.of(chain[-1]).sweep(lake.house.ports, chain[-1], "main", 3)
    assert sorted(folder.iterdir()) == sorted([*kept, folder / "00001-new-m0.avro"])
    assert versions_in(await lake.look()) == ([0, 1, 2, 3], "3")
