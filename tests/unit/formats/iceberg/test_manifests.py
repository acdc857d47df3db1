"""Manifests as other engines write them, and damaged ones."""

from __future__ import annotations

import io
import zlib
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow
import pytest
from msgspec.structs import replace

from moorage.core.errors import Damaged, TooLarge
from moorage.formats.iceberg import avro
from moorage.formats.iceberg.deletes import DeleteIndex
from moorage.formats.iceberg.manifests import ContentFile, ManifestFile, Stats, parse_manifest, parse_manifest_list
from moorage.formats.iceberg.slices import Slice, sliced
from moorage.formats.iceberg.specs import PartitionField
from moorage.formats.iceberg.transforms import parse_transform
from moorage.formats.iceberg.values import parse_primitive
from moorage.testing.manifest_writer import LIST_SCHEMA, entry, manifest, manifest_list


def listed(**given: Any) -> ManifestFile:
    return ManifestFile(**{"path": "m.avro", "length": 100, "spec_id": 0, **given})


def files(data: bytes, **given: Any) -> tuple[ContentFile, ...]:
    return parse_manifest(data, listed(**given), {0: ()}).files


def test_deleted_files_are_omitted_and_others_inherit_from_the_list() -> None:
    data = manifest(
        entry("a", status=1), entry("b", status=0, sequence=3, snapshot=7), entry("c", status=2, sequence=3, snapshot=7)
    )
    found = files(data, sequence=9, snapshot_id=8)
    assert [(file.path, file.sequence, file.added_by, file.is_added) for file in found] == [
        ("a", 9, 8, True),
        ("b", 3, 7, False),
    ]


def test_row_ids_continue_from_the_manifests_first_row_id() -> None:
    data = manifest(
        entry("a", record_count=5),
        entry("b", record_count=7, first_row_id=3),
        entry("c", record_count=2),
        entry("deleted", status=2),
        entry("d"),
    )
    assert [file.first_row_id for file in files(data, first_row_id=100)] == [100, 3, 105, 107]
    assert [file.first_row_id for file in files(data)] == [None, None, None, None]


def test_partition_values_are_kept_as_raw_numbers() -> None:
    fixed = {"type": "fixed", "name": "dec", "size": 5, "logicalType": "decimal", "precision": 9, "scale": 2}
    partition = [
        {"name": "day_1", "field-id": 1001, "type": ["null", {"type": "int", "logicalType": "date"}]},
        {"name": "price", "field-id": 1000, "type": ["null", fixed]},
        {"name": "at", "field-id": 1002, "type": {"type": "long", "logicalType": "timestamp-micros"}},
    ]
    spec = tuple(
        PartitionField(at, 1000 + at, name, at, parse_primitive(kind), parse_transform("identity"))
        for at, (name, kind) in enumerate(
            (("price", "decimal(9,2)"), ("day.1", "date"), ("at", "timestamptz"), ("new", "int"))
        )
    )
    values = {"day_1": date(1970, 1, 3), "price": Decimal("-1.50"), "at": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)}
    found = parse_manifest(manifest(entry("a", partition=values), partition=partition), listed(), {0: spec})
    assert found.files[0].partition == (-150, 2, 1_000_000, None)


def test_a_manifest_of_version_1_states_its_own_spec() -> None:
    found = parse_manifest(manifest(entry("a"), spec_id=4), listed(spec_id=None), {4: ()})
    assert (found.spec_id, found.files[0].sequence) == (4, 0)


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy", "zstandard"])
def test_every_codec_that_writers_use_is_read(codec: str) -> None:
    plain = manifest(*(entry(f"file-{n}", lower_bounds={1: b"\0" * n}) for n in range(50)), codec="null")
    assert [file.path for file in files(recoded(plain, codec))] == [f"file-{n}" for n in range(50)]


def recoded(plain: bytes, codec: str) -> bytes:
    """The same blocks under another codec. fastavro needs additional packages to write two of them."""
    header: Any = fastavro.reader(io.BytesIO(plain))._header
    schema = {
        "type": "record",
        "name": "h",
        "fields": [
            {"name": "magic", "type": {"type": "fixed", "name": "m", "size": 4}},
            {"name": "meta", "type": {"type": "map", "values": "bytes"}},
            {"name": "sync", "type": {"type": "fixed", "name": "s", "size": 16}},
        ],
    }
    written = io.BytesIO()
    header = {**header, "meta": {**header["meta"], "avro.codec": codec.encode()}}
    fastavro.schemaless_writer(written, schema, header)
    blocks: Any = fastavro.block_reader(io.BytesIO(plain))
    for block in blocks:
        data = compressed(block.bytes_.read(), codec)
        for number in (block.num_records, len(data)):
            fastavro.schemaless_writer(written, "long", number)
        written.write(data + header["sync"])
    return written.getvalue()


def compressed(data: bytes, codec: str) -> bytes:
    match codec:
        case "deflate":
            return zlib.compress(data, wbits=-15)
        case "snappy":
            return bytes(pyarrow.Codec("snappy").compress(data, asbytes=True)) + zlib.crc32(data).to_bytes(4, "big")
        case "zstandard":
            return bytes(pyarrow.Codec("zstd").compress(data, asbytes=True))
    return data


@pytest.mark.parametrize("codec", ["deflate", "snappy", "zstandard"])
def test_the_decompressed_size_of_a_file_is_limited(monkeypatch: pytest.MonkeyPatch, codec: str) -> None:
    data = recoded(manifest(*(entry("x" * 5_000) for _ in range(20)), codec="null"), codec)
    monkeypatch.setattr(avro, "LARGEST", 50_000)
    with pytest.raises(TooLarge):
        files(data)


@pytest.mark.parametrize(
    "data",
    [b"", b"Obj\x01", b"PAR1" + bytes(100), manifest(entry("a"))[:-30], manifest(entry("a"))[:100], manifest_list()],
    ids=["empty", "magic", "parquet", "cut", "header", "a list"],
)
def test_a_file_that_is_not_a_manifest_is_damaged(data: bytes) -> None:
    with pytest.raises(Damaged, match=r"m\.avro"):
        files(data)


def test_a_corrupted_byte_gives_a_manifest_or_the_error_damaged() -> None:
    whole = manifest(*(entry(f"file-{n}", value_counts={1: n}) for n in range(3)), codec="null")
    for at in range(0, len(whole), 3):
        broken = bytearray(whole)
        broken[at] ^= 0x55
        with suppress(Damaged):
            files(bytes(broken))


def test_a_manifest_list_describes_its_manifests() -> None:
    line = {
        "manifest_path": "m.avro",
        "manifest_length": 123,
        "partition_spec_id": 2,
        "content": 1,
        "sequence_number": 5,
        "added_snapshot_id": 8,
        "added_files_count": 3,
        "existing_files_count": 4,
        "partitions": [{"contains_null": True, "contains_nan": None, "lower_bound": b"a", "upper_bound": b"b"}],
    }
    (found,) = parse_manifest_list(manifest_list(line), "l.avro")
    assert (found.path, found.spec_id, found.is_deletes, found.sequence, found.live) == ("m.avro", 2, True, 5, 7)
    assert found.summaries is not None
    assert (found.summaries[0].has_null, found.summaries[0].has_nan, found.summaries[0].upper) == (True, True, b"b")


def test_a_manifest_list_of_version_1_has_other_field_names() -> None:
    fields = [{**field, "name": field["name"].replace("_files_", "_data_files_")} for field in LIST_SCHEMA["fields"]]
    written = io.BytesIO()
    line = {"manifest_path": "m", "manifest_length": 1, "partition_spec_id": 0}
    counts = {"added_data_files_count": 2, "existing_data_files_count": 1}
    fastavro.writer(written, {**LIST_SCHEMA, "fields": fields}, [line | counts, line])
    assert [found.live for found in parse_manifest_list(written.getvalue(), "l.avro")] == [3, None]


def test_a_list_without_manifests_is_read() -> None:
    assert parse_manifest_list(manifest_list(), "l.avro") == ()


# --- delete files ----------------------------------------------------------------------------------------

NO_STATS = Stats(None, None, None, None, None, None)


def content(
    path: str, kind: int = 0, *, sequence: int = 1, partition: tuple[Any, ...] = (), **given: Any
) -> ContentFile:
    defaults = {
        "format": "parquet",
        "spec_id": 0,
        "records": 1,
        "size": 1,
        "stats": NO_STATS,
        "added_by": 1,
        "is_added": True,
    }
    return ContentFile(content=kind, path=path, sequence=sequence, partition=partition, **{**defaults, **given})


CITY = PartitionField(0, 1000, "city", 2, parse_primitive("string"), parse_transform("identity"))
SPECS = {0: (), 1: (CITY,), 2: (CITY,), 3: (replace(CITY, transform=parse_transform("void")),)}


def applying(data: ContentFile, *deletes: ContentFile) -> list[str]:
    return [file.path for file in DeleteIndex(deletes, SPECS).of(data)]


def test_equality_deletes_apply_to_older_rows_only() -> None:
    deletes = [content("e1", 2, sequence=1), content("e2", 2, sequence=2), content("e3", 2, sequence=3)]
    assert applying(content("a", sequence=2), *deletes) == ["e3"]


def test_position_deletes_also_apply_to_rows_of_their_own_commit() -> None:
    deletes = [content("p1", 1, sequence=1), content("p2", 1, sequence=2), content("p3", 1, sequence=3)]
    assert applying(content("a", sequence=2), *deletes) == ["p2", "p3"]


def test_deletes_apply_to_their_partition_unless_they_are_global() -> None:
    data = content("a", partition=(1,), spec_id=1)
    deletes = [
        content("here", 2, sequence=2, partition=(1,), spec_id=1),
        content("there", 2, sequence=2, partition=(2,), spec_id=1),
        content("other-spec", 2, sequence=2, partition=(1,), spec_id=2),
        content("everywhere", 2, sequence=2, spec_id=0),
        content("void", 2, sequence=2, partition=(None,), spec_id=3),
        content("positions", 1, sequence=2, partition=(1,), spec_id=1),
        content("positions-there", 1, sequence=2, partition=(2,), spec_id=1),
    ]
    assert applying(data, *deletes) == ["everywhere", "void", "here", "positions"]


def test_position_deletes_for_one_file_apply_to_that_file_only() -> None:
    path = {2147483546: b"a"}
    deletes = [
        content("by-name", 1, referenced="a"),
        content("by-bounds", 1, stats=Stats(None, None, None, None, path, path)),
        content("for-b", 1, referenced="b"),
    ]
    assert applying(content("a"), *deletes) == ["by-name", "by-bounds"]
    assert applying(content("b"), *deletes) == ["for-b"]
    assert applying(content("c"), *deletes) == []


def test_a_deletion_vector_replaces_position_deletes() -> None:
    vector = content("v", 1, sequence=3, format="puffin", referenced="a", offset=4, length=40)
    deletes = [content("p", 1, sequence=2), content("e", 2, sequence=4), vector]
    assert applying(content("a"), *deletes) == ["e", "v"]
    assert applying(content("b"), *deletes) == ["e", "p"]


# --- slices ----------------------------------------------------------------------------------------------


def test_slices_have_about_the_requested_number_of_files_and_miss_none() -> None:
    lives = [4, 4, 4, 25, None, 1, 10, 0]
    manifests = {at: listed(live=live) for at, live in enumerate(lives)}
    found = sliced(manifests, 10, most=100)
    assert found == [
        Slice(0, 1),
        Slice(2, 2),
        Slice(3, 3, 0, 10),
        Slice(3, 3, 10, 20),
        Slice(3, 3, 20, None),
        Slice(4, 4),
        Slice(5, 5),
        Slice(6, 7),
    ]


def test_the_number_of_slices_exceeds_the_limit_by_at_most_one() -> None:
    manifests = {at: listed(live=100) for at in range(1_000)}
    assert len(sliced(manifests, 10, most=50)) <= 51
    assert sliced({}, 10, most=50) == []


def test_a_slice_spans_only_manifests_that_were_kept() -> None:
    manifests = {at: listed(live=1) for at in (2, 5, 9)}
    (only,) = sliced(manifests, 10, most=50)
    assert (only, only.among(manifests)) == (Slice(2, 9), [2, 5, 9])
