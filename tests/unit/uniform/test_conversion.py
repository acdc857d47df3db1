"""Versions of Delta tables converted to snapshots, read back by PyIceberg."""

from __future__ import annotations

import json
import zlib
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from pyroaring import BitMap64

from moorage.formats.delta.deletion_vectors import to_base85
from moorage.formats.iceberg.manifests import ManifestFile, parse_manifest
from moorage.formats.iceberg.specs import specs_of
from moorage.formats.iceberg.values import decode, parse_primitive
from moorage.uniform.conversion import snapshot_id
from moorage.uniform.refusals import Refused
from tests.unit.uniform.twins import TABLE_ID, Twin

PROTOCOL = {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": [], "writerFeatures": []}}


def field(name: str, kind: Any, **metadata: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": True, "metadata": metadata}


class Log:
    """A Delta log written by hand, with real data files."""

    def __init__(
        self, folder: Path, *fields: dict[str, Any], by: tuple[str, ...] = (), configuration: Any = None
    ) -> None:
        self.folder, self.version = folder, -1
        (folder / "_delta_log").mkdir(parents=True)
        self.commit(PROTOCOL, self.metadata(*fields, by=by, configuration=configuration))

    @staticmethod
    def metadata(*fields: dict[str, Any], by: tuple[str, ...] = (), configuration: Any = None) -> dict[str, Any]:
        schema = json.dumps({"type": "struct", "fields": list(fields)})
        return {
            "metaData": {
                "id": "m",
                "schemaString": schema,
                "partitionColumns": by,
                "configuration": configuration or {},
            }
        }

    def commit(self, *actions: dict[str, Any]) -> None:
        self.version += 1
        info = {"commitInfo": {"timestamp": 1_700_000_000_000 + self.version}}
        text = "\n".join(map(json.dumps, (info, *actions)))
        (self.folder / "_delta_log" / f"{self.version:020}.json").write_text(text)

    def file(self, columns: dict[str, Any], *, stats: Any = True, **more: Any) -> dict[str, Any]:
        name, table = f"part-{uuid4()}.parquet", pa.table(columns)
        pq.write_table(table, self.folder / name)
        stated = {"numRecords": table.num_rows} if stats is True else stats
        add = {"path": name, "partitionValues": {}, "size": (self.folder / name).stat().st_size}
        shown = {} if stated is None else {"stats": json.dumps(stated)}
        return {"add": {**add, "modificationTime": 1, "dataChange": True, **shown, **more}}


def remove(add: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"remove": {"path": add["add"]["path"], "dataChange": True, "deletionTimestamp": 1, **more}}


def entries_of(twin: Twin) -> list[Any]:
    """The live data files as the server's own planner parses them."""
    assert twin.made is not None
    doc = twin.made.doc
    found: list[Any] = []
    for record in twin.listed():
        listed = ManifestFile(
            path=record["manifest_path"],
            length=record["manifest_length"],
            spec_id=record["partition_spec_id"],
            is_deletes=record["content"] == 1,
            sequence=record["sequence_number"],
            snapshot_id=record["added_snapshot_id"],
            first_row_id=record.get("first_row_id"),
        )
        found += parse_manifest(twin.local(listed.path).read_bytes(), listed, specs_of(doc)).files
    return found


def test_snapshots_are_functions_of_table_and_version(tmp_path: Path) -> None:
    log = Log(tmp_path, field("id", "long"))
    log.commit(log.file({"id": [1]}))
    one, other = Twin(tmp_path), Twin(tmp_path)
    ids = [[each["snapshot-id"] for each in twin.follow().doc["snapshots"]] for twin in (one, other)]
    assert ids[0] == ids[1] == [snapshot_id(TABLE_ID, 0), snapshot_id(TABLE_ID, 1)]
    assert [each["sequence-number"] for each in one.made.doc["snapshots"]] == [0, 1]  # type: ignore[union-attr]
    assert one.made.doc["table-uuid"] == TABLE_ID  # type: ignore[union-attr]


def test_bounds_cover_what_statistics_cut_off(tmp_path: Path) -> None:
    log = Log(tmp_path, field("at", "timestamp"), field("x", "double"), field("n", "integer"), field("s", "string"))
    low = {"at": "1969-12-31T23:59:59.999Z", "x": 0.0, "n": -5, "s": "a"}
    high = {"at": "2024-01-01T00:00:00.000Z", "x": -0.0, "n": 2**40, "s": "b"}
    stats = {"numRecords": 3, "minValues": low, "maxValues": high, "nullCount": {"at": 0, "x": 1, "n": 2, "s": 3}}
    log.commit(log.file({"n": [1, 2, 3]}, stats=stats))
    twin = Twin(tmp_path)
    twin.follow()
    (entry,) = entries_of(twin)
    at, x, n = (parse_primitive(kind) for kind in ("timestamptz", "double", "int"))
    assert decode(at, entry.stats.lower[1]) == -1_000
    assert decode(at, entry.stats.upper[1]) == 1_704_067_200_000_000 + 999
    assert str(decode(x, entry.stats.lower[2])) == "-0.0"
    assert str(decode(x, entry.stats.upper[2])) == "0.0"
    assert decode(n, entry.stats.lower[3]) == -5
    assert 3 not in entry.stats.upper  # no integer is that large
    assert entry.stats.nulls == {1: 0, 2: 1, 3: 2, 4: 3}
    assert entry.stats.values == dict.fromkeys((1, 2, 3, 4), 3)


def test_bounds_that_are_no_numbers_are_left_out(tmp_path: Path) -> None:
    log = Log(tmp_path, field("x", "double"))
    stats = {"numRecords": 1, "minValues": {"x": 1.0}, "maxValues": {"x": "NaN"}, "nullCount": {"x": 0}}
    log.commit(log.file({"x": [1.0]}, stats=stats))
    twin = Twin(tmp_path)
    twin.follow()
    (entry,) = entries_of(twin)
    assert (1 in entry.stats.lower, 1 in entry.stats.upper) == (True, False)


def test_decimals_are_found_although_deltalake_rounds_their_bounds(tmp_path: Path) -> None:
    values = {
        "a": (18, 4, "12345678901234.5678"),
        "b": (38, 0, str(10**27 + 1)),
        "c": (20, 19, "-0.1234567890123456789"),
    }
    columns = {name: pa.array([Decimal(text)], pa.decimal128(*kind)) for name, (*kind, text) in values.items()}
    write_deltalake(tmp_path, pa.table(columns))
    twin = Twin(tmp_path)
    twin.follow()
    for name, (_, _, text) in values.items():
        assert twin.iceberg().scan(row_filter=f"{name} = {text}").to_arrow().num_rows == 1, name


def test_files_without_statistics_are_counted(tmp_path: Path) -> None:
    log = Log(tmp_path, field("id", "long"))
    log.commit(log.file({"id": [1, 2, 3]}, stats=None))
    twin = Twin(tmp_path)
    twin.follow()
    assert [entry.records for entry in entries_of(twin)] == [3]


PARTITIONS = [
    ("date", "2024-02-29"),
    ("string", "a=b/c% #?:&'é🙂"),
    ("integer", "-7"),
    ("long", str(2**40)),
    ("boolean", "true"),
    ("decimal(9,2)", "-9.99"),
    ("double", "0.5"),
    ("double", "inf"),
    ("double", "-Infinity"),
    ("float", "-2.25"),
    ("float", "-inf"),
    ("timestamp", "2024-06-01T12:34:56.123456Z"),
    ("timestamp_ntz", "2024-06-01 12:34:56"),
]


@pytest.mark.parametrize(("kind", "text"), PARTITIONS)
def test_partition_values_are_read_from_the_manifest(tmp_path: Path, kind: str, text: str) -> None:
    log = Log(tmp_path, field("id", "long"), field("p 1", kind), by=("p 1",))
    for value in (text, None, ""):
        log.commit(log.file({"id": [1]}, partitionValues={"p 1": value}))
    twin = Twin(tmp_path)
    twin.follow()
    found = twin.iceberg().scan().to_arrow()["p 1"].to_pylist()
    assert sum(each is None for each in found) == 2
    assert len({repr(each) for each in found}) == 2
    if kind == "string":
        assert text in found


@pytest.mark.parametrize(
    ("kind", "text", "words"),
    [
        ("timestamp", "2024-06-01 12:34:56", "has no time zone"),
        ("decimal(9,2)", "-9.-99", "is not a decimal"),
        ("date", "yesterday", "is not a date"),
    ],
)
def test_a_partition_value_without_a_certain_meaning_is_refused(
    tmp_path: Path, kind: str, text: str, words: str
) -> None:
    log = Log(tmp_path, field("id", "long"), field("p", kind), by=("p",))
    log.commit(log.file({"id": [1]}, partitionValues={"p": text}))
    with pytest.raises(Refused, match=words):
        Twin(tmp_path).follow()


def test_a_timestamp_without_a_zone_is_read_in_the_zone_that_the_owner_sets(tmp_path: Path) -> None:
    log = Log(tmp_path, field("id", "long"), field("p", "timestamp"), by=("p",))
    twin = Twin(tmp_path)

    def found() -> list[str]:
        twin.follow()
        return sorted({f"{each:%d %H:%M}" for each in twin.iceberg().scan().to_arrow()["p"].to_pylist()})

    twin.time_zone = "Europe/Oslo"
    log.commit(log.file({"id": [1]}, partitionValues={"p": "2024-06-01 12:34:56"}))
    log.commit(log.file({"id": [2]}, partitionValues={"p": "2024-01-02 12:34:56.5"}))
    log.commit(log.file({"id": [3]}, partitionValues={"p": "2024-01-03T12:34:56Z"}))
    assert found() == ["01 10:34", "02 11:34", "03 12:34"]
    assert twin.restarts == 1
    twin.time_zone = "Asia/Tokyo"
    log.commit(log.file({"id": [4]}, partitionValues={"p": "2024-06-04 12:34:56"}))
    assert found() == ["01 03:34", "02 03:34", "03 12:34", "04 03:34"]
    assert twin.restarts == 2, "files of older versions are read in the new zone, too"
    twin.time_zone = "Europe/Atlantis"
    log.commit(log.file({"id": [5]}, partitionValues={"p": "2024-06-04 12:34:56"}))
    with pytest.raises(Refused, match="'Europe/Atlantis', which is not the name of a time zone"):
        twin.follow()


# --- deletion vectors -----------------------------------------------------------------------------------


def bitmap(*rows: int) -> bytes:
    return b"\xd1\xd3\x39\x64" + BitMap64(rows).serialize()


def inline_vector(*rows: int) -> dict[str, Any]:
    data = bitmap(*rows)
    padded = data + b"\x00" * (-len(data) % 4)
    return {"storageType": "i", "pathOrInlineDv": to_base85(padded), "sizeInBytes": len(data), "cardinality": len(rows)}


def stored_vector(folder: Path, *rows: int, flaw: bytes = b"") -> dict[str, Any]:
    id, data = uuid4(), bitmap(*rows)
    frame = len(data).to_bytes(4, "big") + data + zlib.crc32(data + flaw).to_bytes(4, "big")
    (folder / f"deletion_vector_{id}.bin").write_bytes(b"\x01" + frame)
    size = {"offset": 1, "sizeInBytes": len(data), "cardinality": len(rows)}
    return {"storageType": "u", "pathOrInlineDv": to_base85(id.bytes), **size}


def test_vectors_are_read_and_replaced_and_removed(tmp_path: Path) -> None:
    log = Log(tmp_path, field("id", "long"))
    file, other = log.file({"id": list(range(10))}), log.file({"id": [100, 101]})
    log.commit(file, other)

    def with_vector(add: dict[str, Any], vector: Any) -> dict[str, Any]:
        return {"add": {**add["add"], "deletionVector": vector}}

    first, second = stored_vector(tmp_path, 1, 2), inline_vector(1, 2, 7)
    log.commit(remove(file), with_vector(file, first), remove(other), with_vector(other, inline_vector(0)))
    log.commit(remove(file, deletionVector=first), with_vector(file, second))
    log.commit(remove(file, deletionVector=second), file)
    twin = Twin(tmp_path)
    expected = {
        1: [*range(10), 100, 101],
        2: [0, 3, 4, 5, 6, 7, 8, 9, 101],
        3: [0, 3, 4, 5, 6, 8, 9, 101],
        4: [*range(10), 101],
    }
    made = twin.follow()
    assert twin.restarts == 1
    table = twin.iceberg()
    for version, ids in expected.items():
        found = table.scan(snapshot_id=snapshot_id(TABLE_ID, version)).to_arrow()
        assert sorted(found["id"].to_pylist()) == ids
    assert made.doc["format-version"] == 3
    operations = [each["summary"]["operation"] for each in made.doc["snapshots"]]
    assert operations == ["append", "append", "delete", "delete", "overwrite"]
    assert made.doc["snapshots"][-1]["summary"]["total-delete-files"] == "1"


def test_a_damaged_vector_is_refused(tmp_path: Path) -> None:
    log = Log(tmp_path, field("id", "long"))
    log.commit(log.file({"id": [1, 2]}, deletionVector=stored_vector(tmp_path, 0, flaw=b"x")))
    with pytest.raises(Refused, match="missing or damaged"):
        Twin(tmp_path).follow()


def test_row_ids_are_those_of_delta(tmp_path: Path) -> None:
    domain = {"domain": "delta.rowTracking", "configuration": '{"rowIdHighWaterMark":9}', "removed": False}
    log = Log(tmp_path, field("id", "long"), configuration={"delta.enableRowTracking": "true"})
    log.commit(
        log.file({"id": [1, 2]}, baseRowId=8, defaultRowCommitVersion=1),
        log.file({"id": [3]}, baseRowId=3, defaultRowCommitVersion=0),
        {"domainMetadata": domain},
    )
    twin = Twin(tmp_path)
    made = twin.follow()
    assert sorted((entry.first_row_id, entry.sequence) for entry in entries_of(twin)) == [(3, 0), (8, 1)]
    assert made.doc["next-row-id"] == 10


# --- history --------------------------------------------------------------------------------------------


def test_small_manifests_are_merged(tmp_path: Path) -> None:
    log = Log(tmp_path, field("id", "long"), field("p", "integer"), by=("p",))
    for number in range(105):
        log.commit(log.file({"id": [number]}, partitionValues={"p": str(number)}))
    twin = Twin(tmp_path)
    twin.follow()
    listed = twin.listed()
    assert len(listed) < 10
    assert sum(each["existing_files_count"] + each["added_files_count"] for each in listed) == 105
    table = twin.iceberg()
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == list(range(105))
    assert table.scan(row_filter="p = 77").to_arrow()["id"].to_pylist() == [77]


def test_column_mapping_that_is_switched_on_starts_anew(tmp_path: Path) -> None:
    array = {"type": "array", "elementType": "long", "containsNull": True}
    log = Log(tmp_path, field("l", array), field("id", "long"))
    log.commit(log.file({"l": [[1]], "id": [1]}))
    twin = Twin(tmp_path)
    before = twin.follow().doc

    def mapped(name: str, id: int) -> dict[str, Any]:
        return field(name, "long", **{"delta.columnMapping.id": id, "delta.columnMapping.physicalName": "id"})

    log.commit(log.metadata(mapped("renamed", 2), configuration={"delta.columnMapping.mode": "name"}))
    after = twin.follow().doc
    assert twin.restarts == 2
    assert after["table-uuid"] == before["table-uuid"]
    assert [each["sequence-number"] for each in after["snapshots"]] == [2]
    assert twin.iceberg().scan().to_arrow().to_pylist() == [{"renamed": 1}]


def test_a_new_partitioning_leaves_the_old_manifests_out(tmp_path: Path) -> None:
    rows = pa.table({"id": [1, 2], "a": ["x", "y"], "b": [1, 2]})
    write_deltalake(tmp_path, rows, partition_by=["a"])
    twin = Twin(tmp_path)
    twin.follow()
    write_deltalake(tmp_path, rows, partition_by=["b"], mode="overwrite", schema_mode="overwrite")
    write_deltalake(tmp_path, rows, mode="append")
    made = twin.follow()
    assert [spec["spec-id"] for spec in made.doc["partition-specs"]] == [0, 1]
    assert {record["partition_spec_id"] for record in twin.listed()} == {1}
    assert twin.iceberg().scan().to_arrow().num_rows == 4
    assert twin.restarts == 1


def test_names_with_escapes_are_found(tmp_path: Path) -> None:
    rows = pa.table({"id": [1, 2], "p": ["a=b c%", "é/ü"]})
    write_deltalake(tmp_path, rows, partition_by=["p"])
    DeltaTable(str(tmp_path)).delete("id = 1")
    twin = Twin(tmp_path)
    twin.follow()
    assert twin.restarts == 1
    assert twin.iceberg().scan().to_arrow_batch_reader().read_all().to_pylist() == [{"id": 2, "p": "é/ü"}]
