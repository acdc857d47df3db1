"""Conversion of one Delta version to an Iceberg snapshot: on top of the version before it, or from all its files.

The snapshot of a version has the version as its sequence number, and an id that is a digest of table and version, so
that every server makes the same snapshot. Files have unique names: a file of a conversion that lost a race is never
read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from moorage.formats.delta.file_actions import AddFile, DeletionVector
from moorage.formats.delta.replay import to_table
from moorage.formats.iceberg.documents import Document
from moorage.uniform.changes import Change, file_paths
from moorage.uniform.containers import manifest_list
from moorage.uniform.entries import DATA, DELETES, Entry, Manifest, live_entries, read_manifest
from moorage.uniform.manifests import (
    MOST_ENTRIES,
    Shape,
    Stamp,
    Written,
    data_manifests,
    delete_manifests,
    rewrite,
)
from moorage.uniform.partitions import sort_keys
from moorage.uniform.refusals import COMPAT_TAG
from moorage.uniform.summaries import Totals, summary_of
from moorage.uniform.tables import (
    TIMESTAMP,
    VERSION,
    Described,
    Table,
    describe,
    empty_document,
    has_other_ids,
    has_other_zone,
    started_anew,
    untagged,
)
from moorage.uniform.vectors import to_puffin

FOLDER: Final = "_iceberg/"
"""Delta's VACUUM deletes unknown files, but not in folders whose names start with an underscore."""
_SLICE: Final = 10_000
"""Files per call of numpy and Arrow, during some of which no other thread runs."""
_MERGED_AT_ONCE: Final = 100
"""Small manifests are merged when there are this many."""

Frames = Mapping[str, tuple[DeletionVector, bytes]]
"""New vectors with their frames, by data file."""


class NeedsAllFiles(Exception):
    """A version cannot be converted on top of the one before it: all manifests have to be written anew."""


class Base(msgspec.Struct, frozen=True):
    """The version that was converted last: its metadata, and the records of its manifest list."""

    doc: Document
    listed: tuple[Document, ...]


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """A converted version. `files` are to be written before the metadata is recorded."""

    doc: Document
    listed: tuple[Document, ...]
    files: dict[str, bytes]
    paths: dict[str, tuple[str, ...]]
    """The data files that each new manifest names."""

    @property
    def base(self) -> Base:
        return Base(self.doc, self.listed)


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What a conversion needs besides the log: read before it, because the conversion does no I/O."""

    manifests: Mapping[str, bytes] = {}
    """The manifests of which files are gone, and those to merge."""
    frames: Frames = {}
    rows: Mapping[str, int] = {}
    """The row counts of files without statistics."""


def snapshot_id(table: str, version: int) -> int:
    """63 bits of a digest: the same on every server, and different for every version of every table."""
    digest = hashlib.sha256(f"{table}/{version}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1 or 1


# --- all files ------------------------------------------------------------------------------------------


def convert_all(
    table: Table,
    files: pa.Table,
    change: Change,
    *,
    base: Document | None,
    facts: Facts,
    token: str,
) -> Made:
    """Convert a version from all its files, in the columns of `replay.FILES`. Older snapshots are left out."""
    doc = empty_document(table) if base is None else started_anew(base)
    described = describe(doc, table, has_vectors=bool(facts.frames))
    stamp = Stamp(snapshot_id(table.id, change.version), change.version)
    writer = _Writer(table, described.shape, stamp, token)
    if table.needs_tags:
        _require_tags(files)
    files = sort_keys(files, described.shape.columns)
    for start in range(0, files.num_rows, _SLICE):
        part = files.slice(start, _SLICE)
        writer.add_data(part, file_paths(table.root, part["path"]), facts.rows)
    vectors = files.filter(files["deletionVector"].is_valid())
    writer.add_vectors(vectors, file_paths(table.root, vectors["path"]).to_pylist(), facts.frames)
    return _finish(described, writer, (), change, table, "append", writer.gained, writer.gained)


def _require_tags(files: pa.Table) -> None:
    tags = pc.map_lookup(files["tags"], pa.scalar(COMPAT_TAG), "first")
    if tags.null_count:
        raise untagged(files["path"].filter(tags.is_null())[0].as_py())


# --- one version after another --------------------------------------------------------------------------


def touched(change: Change) -> frozenset[str]:
    """The data files whose entries in older manifests may change."""
    return change.gone | change.restored | change.vectors.keys() | change.rewritten


def to_merge(listed: Sequence[Document]) -> list[Document]:
    """Small manifests of one kind that should be merged now; empty if there are few."""
    kinds: dict[tuple[int, int], list[Document]] = {}
    for record in listed:
        if record["added_files_count"] + record["existing_files_count"] <= MOST_ENTRIES // 2:
            kinds.setdefault((record["content"], record["partition_spec_id"]), []).append(record)
    most = max(kinds.values(), key=len, default=[])
    return most if len(most) >= _MERGED_AT_ONCE else []


def convert_next(table: Table, base: Base, change: Change, *, facts: Facts, token: str) -> Made:
    """Convert a version on top of the one before it. Raises NeedsAllFiles if it cannot be."""
    if has_other_ids(base.doc, table):
        raise NeedsAllFiles("column mapping was switched on or off")
    if has_other_zone(base.doc, table):
        raise NeedsAllFiles("the time zone of partition values was changed")
    described = describe(base.doc, table, has_vectors=bool(facts.frames))
    if table.needs_tags:
        _require_tags_of(change.added.values())
    stamp = Stamp(snapshot_id(table.id, change.version), change.version)
    writer = _Writer(table, described.shape, stamp, token)
    before = Totals.before(base.doc)
    kept = [record for record in base.listed if record["added_files_count"] + record["existing_files_count"]]
    if described.doc["default-spec-id"] != base.doc["default-spec-id"]:
        # DuckDB ends its process if one snapshot has several specs and a column of one of them is gone. Delta
        # changes the partitioning only by replacing all files, so nothing has to be carried over.
        if before.files != len(change.gone):
            raise NeedsAllFiles("the partitioning changed, and files of the former one stay")
        lost, kept = before, []
    else:
        kept, lost = _without_gone(kept, change, facts, writer)
    if change.added:
        adds = to_table(change.added.values())
        writer.add_data(adds, pa.array(change.added, pa.string()), facts.rows)
    writer.add_vectors(to_table(change.vectors.values()), list(change.vectors), facts.frames)
    gained = writer.gained
    operation = _operation(change, gained, lost)
    return _finish(described, writer, kept, change, table, operation, gained, before + gained - lost, lost)


def _require_tags_of(files: Collection[AddFile]) -> None:
    for file in files:
        if COMPAT_TAG not in (file.tags or {}):
            raise untagged(file.path)


def _without_gone(
    listed: Sequence[Document], change: Change, facts: Facts, writer: _Writer
) -> tuple[list[Document], Totals]:
    """The listed manifests without the entries that the version ends, and what it ends."""
    merging = {record["manifest_path"]: record for record in to_merge(listed)}
    merging = merging if merging.keys() <= facts.manifests.keys() else {}
    ended = {DATA: change.gone | change.rewritten, DELETES: touched(change)}
    lost, found, kept, merged = Totals(), set[str](), list[Document](), list[tuple[Document, Manifest]]()
    for record in listed:
        path, content = record["manifest_path"], record["content"]
        if path not in facts.manifests:
            kept.append(record)
            continue
        manifest = read_manifest(facts.manifests[path], path)
        entries = live_entries(manifest.entries, record)
        ending = [entry for entry in entries if entry.path in ended[content]]
        lost += Totals.of_entries(ending, content)
        if content == DATA:
            found.update(entry.path for entry in ending)
        if ending:
            writer.rewrite(entries, ended[content], [record], manifest)
        elif path in merging:
            merged.append((record, manifest._replace(entries=entries)))
        else:
            kept.append(record)
    if not change.gone <= found:
        raise NeedsAllFiles(f"{len(change.gone - found)} removed files are not in the converted table")
    writer.merge(merged)
    return kept, lost


def _operation(change: Change, gained: Totals, lost: Totals) -> str:
    if not change.changes_data and (lost.files or gained.files):
        return "replace"
    if lost.files or lost.vectors or gained.vectors:
        return "overwrite" if gained.files or lost.vectors > gained.vectors else "delete"
    return "append"


# --- files and metadata ---------------------------------------------------------------------------------


class _Writer:
    """The files of one snapshot."""

    def __init__(self, table: Table, shape: Shape, stamp: Stamp, token: str) -> None:
        self.shape, self.stamp = shape, stamp
        self.prefix = f"{table.root}{FOLDER}{stamp.sequence:05d}-{token}"
        self.files: dict[str, bytes] = {}
        self.records: list[Document] = []
        self.paths: dict[str, tuple[str, ...]] = {}
        self.gained = Totals()

    def add_data(self, files: pa.Table, paths: pa.Array, rows: Mapping[str, int]) -> None:
        self.gained += Totals(size=pc.sum(files["size"]).as_py() or 0)
        for made in data_manifests(files, paths, rows, self.shape, self.stamp):
            self._add(made)
            self.gained += Totals(made.record["added_files_count"], made.record["added_rows_count"])

    def add_vectors(self, files: pa.Table, paths: Sequence[str], frames: Frames) -> None:
        if not paths:
            return
        puffins = {f"{self.prefix}-d{at}.puffin": to_puffin(path, *frames[path]) for at, path in enumerate(paths)}
        self.files.update((name, puffin.data) for name, puffin in puffins.items())
        self.gained += Totals(vectors=len(paths), deleted=sum(each.cardinality for each in puffins.values()))
        for made in delete_manifests(files, paths, puffins, self.shape, self.stamp):
            self._add(made)

    def rewrite(
        self, entries: Sequence[Entry], gone: Collection[str], listed: Sequence[Document], manifest: Manifest
    ) -> None:
        shape = self.shape
        self._add(rewrite(entries, gone, listed, manifest.partition, shape, self.stamp))

    def merge(self, manifests: Sequence[tuple[Document, Manifest]]) -> None:
        """Write the entries of many small manifests into few. Manifests with other partition types stay apart."""
        group: list[tuple[Document, Manifest]] = []
        for each in manifests:
            is_other = group and each[1].partition != group[0][1].partition
            if is_other or sum(len(one.entries) for _, one in (*group, each)) > MOST_ENTRIES:
                self._merge(group)
                group = []
            group.append(each)
        self._merge(group)

    def _merge(self, group: Sequence[tuple[Document, Manifest]]) -> None:
        if group:
            entries = [entry for _, manifest in group for entry in manifest.entries]
            self.rewrite(entries, (), [record for record, _ in group], group[0][1])

    def _add(self, made: Written) -> None:
        path = f"{self.prefix}-m{len(self.records)}.avro"
        self.files[path] = made.data
        self.paths[path] = made.paths
        self.records.append({"manifest_path": path, **made.record})


def _finish(
    described: Described,
    writer: _Writer,
    kept: Sequence[Document],
    change: Change,
    table: Table,
    operation: str,
    gained: Totals,
    total: Totals,
    lost: Totals = Totals(),  # noqa: B008
) -> Made:
    doc = described.doc
    listed, next_row = _with_row_ids([*writer.records, *kept], doc, table, change)
    snapshot = _snapshot(doc, table, change, writer, summary_of(operation, gained, lost, total, change.version))
    if described.shape.format_version >= 3:
        snapshot["first-row-id"], snapshot["added-rows"] = doc["next-row-id"], next_row - doc["next-row-id"]
        doc = {**doc, "next-row-id": next_row}
    files = dict(writer.files)
    version = described.shape.format_version
    files[snapshot["manifest-list"]] = manifest_list(listed, format_version=version, snapshot=snapshot)
    return Made(doc=_with_snapshot(doc, snapshot, change), listed=tuple(listed), files=files, paths=writer.paths)


def _with_row_ids(
    records: Sequence[Document], doc: Document, table: Table, change: Change
) -> tuple[list[Document], int]:
    """Assign the first row ids of manifests that have none yet, and return the next free row id."""
    next_row = doc.get("next-row-id", 0)
    if doc["format-version"] < 3:
        return list(records), next_row
    numbered = []
    for record in records:
        first_row = record.get("first_row_id")
        if record["content"] == DATA and first_row is None:
            first_row = next_row
            next_row += 0 if table.tracks_rows else record["added_rows_count"] + record["existing_rows_count"]
        numbered.append({**record, "first_row_id": first_row})
    if table.tracks_rows and change.row_id_mark is not None:
        next_row = max(next_row, change.row_id_mark + 1)
    return numbered, next_row


def _snapshot(doc: Document, table: Table, change: Change, writer: _Writer, summary: dict[str, str]) -> Document:
    parent = doc.get("current-snapshot-id")
    last_ms = doc["snapshots"][-1]["timestamp-ms"] if doc["snapshots"] else 0
    snapshot = {
        "snapshot-id": writer.stamp.snapshot_id,
        "sequence-number": change.version,
        "timestamp-ms": max(change.timestamp_ms, last_ms + 1),
        "manifest-list": f"{writer.prefix}-list.avro",
        "summary": summary,
        "schema-id": doc["current-schema-id"],
    }
    return snapshot if parent is None else {**snapshot, "parent-snapshot-id": parent}


def _with_snapshot(doc: Document, snapshot: Document, change: Change) -> Document:
    id, at_ms = snapshot["snapshot-id"], snapshot["timestamp-ms"]
    properties = {**doc["properties"], VERSION: str(change.version), TIMESTAMP: str(change.timestamp_ms)}
    return {
        **doc,
        "last-sequence-number": change.version,
        "last-updated-ms": max(doc["last-updated-ms"], at_ms),
        "properties": properties,
        "current-snapshot-id": id,
        "refs": {"main": {"snapshot-id": id, "type": "branch"}},
        "snapshots": [*doc["snapshots"], snapshot],
        "snapshot-log": [*doc["snapshot-log"], {"snapshot-id": id, "timestamp-ms": at_ms}],
    }
