"""Conversions that clients state with their commits. The server compares them with the table before it accepts them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from moorage.testing import delta_writer as write
from tests.api.delta.delta_client import DeltaClient, Staged, ok
from tests.api.house import House
from tests.api.iceberg.conversions import a_file, block_of, convert_files, store_metadata

Document = dict[str, Any]
ON = {"delta.universalFormat.enabledFormats": "iceberg"}
LOAD = "/iceberg/v1/lake/namespaces/sea/tables/t"


def column(name: str, kind: str) -> Document:
    return {"name": name, "type": kind, "nullable": True, "metadata": {}}


COLUMNS = (column("id", "long"), column("price", "decimal(9,2)"), column("day", "date"))
DESCRIBED = {"columns": COLUMNS, "partition_columns": ("day",)}
VECTOR = {
    "storageType": "u",
    "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^",
    "offset": 1,
    "sizeInBytes": 12,
    "cardinality": 2,
}


def on_day(day: str | None, rows: int = 3, **more: Any) -> Document:
    return a_file(rows, partitionValues={"day": day}, **more)


def changed(add: Document, **changes: Any) -> Document:
    return {"add": {**add["add"], **changes}}


OLD, NEW, DELETED = (
    on_day("2024-06-01", path="old.parquet"),
    on_day(None, path="new%20one.parquet"),
    on_day("2024-06-02"),
)
DELETED = changed(DELETED, deletionVector=VECTOR, path="deleted.parquet")
LIVE = (OLD, NEW, DELETED)


@pytest.fixture
async def table(house: House) -> Staged:
    """A table with one file, from version 1 on."""
    delta = DeltaClient(house.console.http)
    await delta.furnish()
    table = await delta.make(properties=ON, described=DESCRIBED)
    ok(await delta.commit(table, table.stage(1, OLD)))
    return table


async def state(house: House, table: Staged, doc: Document, version: int = 2) -> Any:
    """Commit a version with two more files, and state its conversion."""
    info = table.stage(version, NEW, DELETED)
    uniform = {"iceberg": block_of(store_metadata(table, version, doc), version)}
    return await DeltaClient(house.console.http).commit(table, info, uniform=uniform)


async def test_metadata_of_exactly_the_files_of_a_version_is_accepted_and_served(house: House, table: Staged) -> None:
    doc = convert_files(table, 2, LIVE)
    ok(await state(house, table, doc))
    loaded = ok(await house.console.http.get(LOAD))
    assert loaded["metadata-location"].endswith("/metadata/v2.metadata.json")
    assert loaded["metadata"]["snapshots"] == doc["snapshots"]


@pytest.mark.parametrize("scheme", ["file:", ""])
async def test_other_spellings_of_the_same_files_are_accepted(house: House, table: Staged, scheme: str) -> None:
    doc = convert_files(table, 2, LIVE, scheme=scheme)
    ok(await state(house, table, doc))
    assert ok(await house.console.http.get(LOAD))["metadata"]["snapshots"] == doc["snapshots"]


def with_columns(*columns: Document) -> Document:
    return write.metadata({}, columns, partition_columns=("day",))


def unpartitioned() -> Document:
    return write.metadata({}, COLUMNS)


@pytest.mark.parametrize(
    ("files", "metadata", "words"),
    [
        pytest.param((OLD,), None, "lacks 2 files", id="stale"),
        pytest.param((), None, "lacks 3 files", id="empty"),
        pytest.param((*LIVE, on_day("2024-06-01")), None, "1 files that the version does not have", id="another file"),
        pytest.param((*LIVE, OLD), None, "twice", id="a file twice"),
        pytest.param((changed(OLD, stats='{"numRecords":4}'), NEW, DELETED), None, "states 4 rows", id="rows"),
        pytest.param((changed(OLD, deletionVector=VECTOR), NEW, DELETED), None, "deletes 2 rows", id="deleted rows"),
        pytest.param((OLD, NEW, changed(DELETED, deletionVector=None)), None, "deletes 0 rows", id="no deleted rows"),
        pytest.param(
            (OLD, NEW, changed(DELETED, deletionVector={**VECTOR, "cardinality": 1})),
            None,
            "deletes 1 rows",
            id="fewer",
        ),
        pytest.param(
            (changed(OLD, partitionValues={"day": "2024-06-03"}), NEW, DELETED), None, "partition value", id="partition"
        ),
        pytest.param(
            (OLD, changed(NEW, partitionValues={"day": "2024-06-03"}), DELETED), None, "partition value", id="not null"
        ),
        pytest.param(LIVE, unpartitioned(), "does not partition by the values of day", id="spec"),
        pytest.param(LIVE, with_columns(COLUMNS[0], COLUMNS[2]), "'price' is missing", id="a column less"),
        pytest.param(LIVE, with_columns(*COLUMNS, column("x", "long")), "'x' is", id="a column more"),
        pytest.param(LIVE, with_columns(column("id", "string"), *COLUMNS[1:]), "'id' is", id="another type"),
    ],
)
async def test_metadata_that_differs_from_the_version_is_refused(
    house: House, table: Staged, files: tuple[Document, ...], metadata: Document | None, words: str
) -> None:
    await require_refused(house, table, convert_files(table, 2, files, metadata=metadata), words)


async def require_refused(house: House, table: Staged, doc: Document, words: str) -> None:
    answer = await state(house, table, doc)
    assert answer.status_code == 400, answer.text
    assert "is not the Iceberg metadata of version 2" in answer.json()["message"]
    assert words in answer.json()["message"]
    assert await DeltaClient(house.console.http).announced(table) == ([1], 1)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        pytest.param(lambda file: file.unlink(), "does not exist", id="missing"),
        pytest.param(lambda file: file.write_bytes(b"PAR1"), "cannot be read", id="not Avro"),
        pytest.param(lambda file: file.write_bytes(file.read_bytes()[:-9]), "cannot be read", id="truncated"),
    ],
)
@pytest.mark.parametrize("kind", ["list", "m0"])
async def test_metadata_whose_manifests_cannot_be_read_is_refused(
    house: House, table: Staged, kind: str, damage: Callable[[Any], Any], words: str
) -> None:
    doc = convert_files(table, 2, LIVE)
    (file,) = (table.folder / "_iceberg").glob(f"*-client*-{kind}.avro")
    damage(file)
    await require_refused(house, table, doc, words)


async def test_metadata_of_a_version_that_was_not_ratified_yet_is_compared_when_it_is(house: House) -> None:
    v1 = DeltaClient(house.console.http, "v1")
    await v1.furnish()
    table = await v1.stage()
    table.write_first(properties=ON, described=DESCRIBED)
    location = store_metadata(table, 1, convert_files(table, 1, LIVE))
    block = {"metadata-location": location, "converted-delta-version": 1, "converted-delta-timestamp": 1}
    ok(
        await v1.create(
            table,
            columns={"type": "struct", "fields": COLUMNS},
            properties=ON,
            uniform={"iceberg": block},
            **{"partition-columns": ["day"]},
        )
    )
    ok(await v1.commit(table, table.stage(1, OLD)))
    loaded = ok(await house.console.http.get(LOAD))
    assert loaded["metadata-location"] != location
    assert loaded["metadata"]["snapshots"][-1]["summary"]["total-data-files"] == "1"
    assert ok(await v1.load())["uniform"]["iceberg"]["metadata-location"] == loaded["metadata-location"]
