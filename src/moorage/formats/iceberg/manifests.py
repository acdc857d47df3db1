"""Manifest lists and manifests: the files of a snapshot and the statistics of each file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from moorage.formats.iceberg.avro import AvroFile, read_avro, reading
from moorage.formats.iceberg.specs import Spec
from moorage.formats.iceberg.values import Partition

DATA, POSITION_DELETES, EQUALITY_DELETES = 0, 1, 2
_DELETED = 2
_ADDED = 1


class Summary(msgspec.Struct, frozen=True):
    """The summary of one partition field over all files of a manifest."""

    has_null: bool
    has_nan: bool
    lower: bytes | None
    upper: bytes | None


class ManifestFile(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of a manifest list."""

    path: str
    length: int
    spec_id: int | None
    """None if a table of format version 1 names manifests without a list. The id is then in the manifest."""
    is_deletes: bool = False
    sequence: int = 0
    snapshot_id: int | None = None
    live: int | None = None
    """The number of files that are not deleted; None if it is unknown."""
    summaries: tuple[Summary, ...] | None = None
    first_row_id: int | None = None


class Stats(msgspec.Struct, frozen=True, gc=False):
    """Counts and bounds of a file's columns, by field id."""

    sizes: Mapping[int, int] | None
    values: Mapping[int, int] | None
    nulls: Mapping[int, int] | None
    nans: Mapping[int, int] | None
    lower: Mapping[int, bytes] | None
    upper: Mapping[int, bytes] | None


class ContentFile(msgspec.Struct, kw_only=True, gc=False):
    """A data or delete file of a snapshot. `gc=False`, because there are many and they never form cycles."""

    content: int
    path: str
    format: str
    spec_id: int
    partition: Partition
    records: int
    size: int
    sequence: int
    stats: Stats
    added_by: int | None
    """The snapshot that added it."""
    is_added: bool
    """Whether the manifest's own snapshot added it, as opposed to an existing entry."""
    key_metadata: bytes | None = None
    split_offsets: list[int] | None = None
    equality_ids: list[int] | None = None
    sort_order_id: int | None = None
    first_row_id: int | None = None
    referenced: str | None = None
    """The data file that a delete file applies to, if there is only one."""
    offset: int | None = None
    length: int | None = None
    wire: bytes | None = None
    """Its cached form in responses, after the first response that contains it."""


class Manifest(msgspec.Struct, frozen=True):
    """The live files of a manifest."""

    spec_id: int
    files: tuple[ContentFile, ...]


def parse_manifest_list(data: bytes, path: str) -> tuple[ManifestFile, ...]:
    """The manifests of a snapshot."""
    with reading(f"the manifest list {path}"):
        return tuple(_manifest_file(entry) for entry in read_avro(data).records)


def _manifest_file(entry: dict[str, Any]) -> ManifestFile:
    counts = [entry.get(f"{kind}_files_count", entry.get(f"{kind}_data_files_count")) for kind in ("added", "existing")]
    return ManifestFile(
        path=entry["manifest_path"],
        length=entry["manifest_length"],
        spec_id=entry["partition_spec_id"],
        is_deletes=entry.get("content", 0) == 1,
        sequence=entry.get("sequence_number") or 0,
        snapshot_id=entry.get("added_snapshot_id"),
        live=_sum(counts),
        summaries=None if entry.get("partitions") is None else tuple(map(_summary, entry["partitions"])),
        first_row_id=entry.get("first_row_id"),
    )


def _sum(counts: list[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _summary(raw: dict[str, Any]) -> Summary:
    nan = raw.get("contains_nan")
    return Summary(raw["contains_null"], nan is not False, raw.get("lower_bound"), raw.get("upper_bound"))


def parse_manifest(data: bytes, listed: ManifestFile, specs: Mapping[int, Spec]) -> Manifest:
    """The live files of a manifest, with the values that they inherit from its entry in the list."""
    with reading(f"the manifest {listed.path}"):
        file = read_avro(data)
        spec_id = listed.spec_id if listed.spec_id is not None else int(file.meta["partition-spec-id"])
        names = _partition_names(file, specs[spec_id])
        return Manifest(spec_id, tuple(_content_files(file.records, listed, spec_id, names)))


def parse_paths(data: bytes, path: str) -> tuple[str, ...]:
    """Every file that a manifest names, including files that were deleted from the table."""
    with reading(f"the manifest {path}"):
        return tuple(record["data_file"]["file_path"] for record in read_avro(data).records)


def _partition_names(file: AvroFile, spec: Spec) -> tuple[tuple[str | None, bool], ...]:
    """The name of each partition field in the records, which can differ from the spec, and whether it is a decimal."""
    data_file = {field["name"]: field["type"] for field in file.schema["fields"]}["data_file"]
    parts = {field["name"]: field["type"] for field in data_file["fields"]}
    names = {field.get("field-id"): field["name"] for field in parts.get("partition", {"fields": ()})["fields"]}
    return tuple((names.get(field.id), field.kind.name == "decimal") for field in spec)


def _partition_value(found: Any, *, is_decimal: bool) -> Any:
    return int.from_bytes(found, "big", signed=True) if is_decimal and isinstance(found, bytes) else found


def _content_files(
    records: Iterable[dict[str, Any]], listed: ManifestFile, spec_id: int, names: tuple[tuple[str | None, bool], ...]
) -> Iterator[ContentFile]:
    next_row = listed.first_row_id
    for record in records:
        if record["status"] == _DELETED:
            continue
        file, sequence, added_by = record["data_file"], record.get("sequence_number"), record.get("snapshot_id")
        first_row, content = file.get("first_row_id"), file.get("content", DATA)
        if content == DATA and first_row is None and next_row is not None:
            first_row, next_row = next_row, next_row + file["record_count"]
        partition = file.get("partition") or {}
        yield ContentFile(
            content=content,
            path=file["file_path"],
            format=file["file_format"].lower(),
            spec_id=spec_id,
            partition=tuple(_partition_value(partition.get(name), is_decimal=decimal) for name, decimal in names),
            records=file["record_count"],
            size=file["file_size_in_bytes"],
            sequence=listed.sequence if sequence is None else sequence,
            stats=_stats(file),
            added_by=listed.snapshot_id if added_by is None else added_by,
            is_added=record["status"] == _ADDED,
            key_metadata=file.get("key_metadata"),
            split_offsets=file.get("split_offsets"),
            equality_ids=file.get("equality_ids"),
            sort_order_id=file.get("sort_order_id"),
            first_row_id=None if listed.first_row_id is None else first_row,
            referenced=file.get("referenced_data_file"),
            offset=file.get("content_offset"),
            length=file.get("content_size_in_bytes"),
        )


_STATS = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")


def _stats(file: dict[str, Any]) -> Stats:
    return Stats(*(file.get(name) for name in _STATS))
