"""Delta tables through the Iceberg API: read-only, at the version that was converted last."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import msgspec
import pytest

from moorage.api.iceberg.bodies import EXAMPLE_SCHEMA
from moorage.formats.iceberg.table_metadata import new_table
from moorage.testing import delta_writer as write
from moorage.testing.builders import START_MS
from tests.api.delta.delta_client import DeltaClient, Staged, ok
from tests.api.house import House
from tests.api.iceberg.lake import PERSISTED, Lake, refused, set_property, to_space, to_table

ON = {"delta.universalFormat.enabledFormats": "iceberg"}
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
        """Commit a Delta version, with its conversion if a location is given."""
        block = {
            "metadata_location": location,
            "converted_delta_version": version,
            "converted_delta_timestamp": "2026-02-09T17:00:00.000000Z",
        }
        uniform: Document = {} if location is None else {"uniform": {"iceberg": block}}
        ok(await self.delta.commit(table, table.stage(version, *actions), **uniform))

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
        schema=EXAMPLE_SCHEMA,
        spec=None,
        order=None,
        properties={"delta-version": str(version)},
        now_ms=START_MS + version,
    )
    return {**made, **changes}


def snapshot(path: str) -> Document:
    return {"snapshot-id": 1, "sequence-number": 0, "timestamp-ms": START_MS, "manifest-list": path}


def convert(table: Staged, version: int, doc: Document | bytes | None = None) -> str:
    """Write the metadata file of a conversion, and return its location."""
    file = table.folder / "metadata" / f"v{version}.metadata.json"
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(doc if isinstance(doc, bytes) else msgspec.json.encode(doc or converted_metadata(table, version)))
    return f"{table.location}/metadata/{file.name}"


async def test_a_delta_table_is_visible_after_its_first_conversion(lake: DeltaLake) -> None:
    table = await lake.make()
    assert await lake.listed() == []
    assert (await lake.look("HEAD")).status_code == 404
    refused(await lake.look(), 404, "NoSuchTableException", "sea.t")
    location = convert(table, 1)
    await lake.commit_version(table, 1, location=location)
    assert await lake.listed() == [{"namespace": ["sea"], "name": "t"}]
    assert (await lake.look("HEAD")).status_code == 204
    loaded = (await lake.look()).json()
    added = {"delta-version": "1", "moorage.latest-delta-version": "1", "gc.enabled": "false"}
    properties = {**PERSISTED, **added}
    assert loaded == {
        "metadata-location": location,
        "metadata": {**converted_metadata(table, 1), "properties": properties},
    }


async def test_a_conversion_of_an_unratified_version_is_not_visible(lake: DeltaLake) -> None:
    await lake.delta.furnish()
    v1 = DeltaClient(lake.house.console.http, "v1")
    table = await v1.stage()
    table.write_first(properties=ON)
    block = {
        "metadata-location": convert(table, 1),
        "converted-delta-version": 1,
        "converted-delta-timestamp": START_MS,
    }
    ok(await v1.create(table, properties=ON, uniform={"iceberg": block}))
    assert (await lake.look("HEAD")).status_code == 404
    await lake.commit_version(table, 1)
    assert (await lake.look()).json()["metadata"]["properties"]["delta-version"] == "1"


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


async def test_the_properties_show_that_the_newest_version_is_not_converted(lake: DeltaLake) -> None:
    table = await lake.make()
    await lake.commit_version(table, 1, location=convert(table, 1))
    tag = (await lake.look()).headers["etag"]
    await lake.commit_version(table, 2)
    behind = await lake.look(tag=tag)
    assert behind.status_code == 200
    properties = behind.json()["metadata"]["properties"]
    assert [properties[name] for name in ("delta-version", "moorage.latest-delta-version")] == ["1", "2"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        pytest.param(lambda table: b"{", "not an Iceberg metadata file", id="no JSON"),
        pytest.param(lambda table: {"format-version": 2}, "location", id="no metadata"),
        pytest.param(lambda table: converted_metadata(table, 7), "describes version 7", id="another version"),
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
async def test_a_file_that_differs_from_what_the_commit_stated_is_not_found(
    lake: DeltaLake, change: Callable[[Staged], Document | bytes], words: str
) -> None:
    table = await lake.make()
    await lake.commit_version(table, 1, location=convert(table, 1, change(table)))
    refused(await lake.look(), 404, "NotFoundException", words)
    convert(table, 1)
    assert (await lake.look()).status_code == 200


async def test_a_conversion_is_not_found_until_its_file_is_written(lake: DeltaLake) -> None:
    table = await lake.make()
    await lake.commit_version(table, 1, location=f"{table.location}/metadata/v1.metadata.json")
    refused(await lake.look(), 404, "NotFoundException", "version 1 cannot be read from")
    convert(table, 1)
    assert (await lake.look()).status_code == 200
    (table.folder / "metadata" / "v1.metadata.json").unlink()
    refused(await lake.look(), 404, "NotFoundException")


async def test_a_link_to_a_file_outside_the_table_is_not_followed(lake: DeltaLake, tmp_path: Path) -> None:
    table = await lake.make()
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "v1.metadata.json").write_bytes(msgspec.json.encode(converted_metadata(table, 1)))
    (table.folder / "metadata").symlink_to(tmp_path / "secret")
    await lake.commit_version(table, 1, location=f"{table.location}/metadata/v1.metadata.json")
    refused(await lake.look(), 404, "NotFoundException")


async def test_a_table_that_is_no_longer_converted_is_not_visible(lake: DeltaLake) -> None:
    table = await lake.make()
    await lake.commit_version(table, 1, location=convert(table, 1))
    await lake.commit_version(table, 2, write.metadata(write.configuration(table.id)))
    assert await lake.listed() == []
    refused(await lake.look(), 404, "NoSuchTableException")
