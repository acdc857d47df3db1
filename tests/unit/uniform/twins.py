"""A Delta table on disk and its conversion, made without a server: what the use case does, in a few lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
from pyiceberg.table import StaticTable

from moorage.formats.delta.deletion_vectors import vector_path
from moorage.formats.delta.log_commits import read_commit
from moorage.formats.delta.replay import LogState, advance
from moorage.formats.iceberg.avro import read_avro
from moorage.formats.iceberg.table_metadata import parse_table
from moorage.uniform.changes import change_of, rows_in, unread_files
from moorage.uniform.conversion import (
    Base,
    Facts,
    Made,
    NeedsAllFiles,
    convert_all,
    convert_next,
    to_merge,
    touched,
)
from moorage.uniform.entries import read_manifest
from moorage.uniform.tables import Table
from moorage.uniform.vectors import framed

TABLE_ID = "0190b3c4-5d6e-7f80-9a1b-2c3d4e5f6071"


def add_of(path: str, **more: Any) -> dict[str, Any]:
    file = {"path": path, "partitionValues": {}, "size": 100, "modificationTime": 1, "dataChange": True}
    return {**file, **more}


class Twin:
    """Converts the versions of a Delta table in a folder, one after another."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.root = folder, f"file://{folder}/"
        self.state = LogState()
        self.made: Made | None = None
        self.restarts = 0
        self.time_zone: str | None = None

    @property
    def table(self) -> Table:
        assert self.state.protocol is not None
        assert self.state.metadata is not None
        return Table(
            id=TABLE_ID,
            root=self.root,
            protocol=self.state.protocol,
            metadata=self.state.metadata,
            time_zone=self.time_zone,
        )

    def local(self, path: str) -> Path:
        return self.folder / path.removeprefix(self.root)

    def follow(self) -> Made:
        """Convert every version that the log has and that is not converted yet."""
        while (self.folder / "_delta_log" / f"{self.state.version + 1:020}.json").exists():
            self.convert(self.state.version + 1)
        assert self.made is not None
        return self.made

    def convert(self, version: int) -> Made:
        source = self.folder / "_delta_log" / f"{version:020}.json"
        commit = read_commit(source.read_bytes(), version=version, source=source.name)
        self.state = advance(self.state, [commit])
        domain = self.state.domains.get("delta.rowTracking")
        mark = None if domain is None else msgspec.json.decode(domain.configuration)["rowIdHighWaterMark"]
        info = commit.commit_info or {}
        at_ms = info.get("inCommitTimestamp") or info.get("timestamp") or version
        change = change_of(self.root, commit, timestamp_ms=at_ms, row_id_mark=mark)
        try:
            if self.made is None:
                raise NeedsAllFiles
            facts = Facts(
                manifests=self.held(self.made.base, touched(change)),
                frames=self.frames(change.vectors.items()),
                rows=self.rows(change.added.items()),
            )
            made = convert_next(self.table, self.made.base, change, facts=facts, token=str(uuid4()))
        except NeedsAllFiles:
            self.restarts += 1
            live = self.state.files()
            vectors, uncounted = unread_files(live, self.root)
            rows = {path: rows_in(self.local(path).read_bytes()) for path in uncounted}
            facts = Facts(frames=self.frames(vectors.items()), rows=rows)
            base = None if self.made is None else self.made.doc
            made = convert_all(self.table, live, change, base=base, facts=facts, token=str(uuid4()))
        for path, data in made.files.items():
            self.local(path).parent.mkdir(exist_ok=True)
            self.local(path).write_bytes(data)
        self.made = made
        return made

    def held(self, base: Base, paths: frozenset[str]) -> dict[str, bytes]:
        found = {}
        merging = {record["manifest_path"] for record in to_merge(base.listed)}
        for record in base.listed:
            data = self.local(record["manifest_path"]).read_bytes()
            entries = read_manifest(data, record["manifest_path"]).entries
            if record["manifest_path"] in merging or any(entry.path in paths for entry in entries):
                found[record["manifest_path"]] = data
        return found

    def frames(self, files: Any) -> Any:
        found = {}
        for path, file in files:
            vector = file.deletion_vector
            source = vector_path(vector)
            data = None if source is None else (self.folder / source).read_bytes()
            found[path] = (vector, framed(vector, data))
        return found

    def rows(self, files: Any) -> dict[str, int]:
        return {
            path: rows_in(self.local(path).read_bytes())
            for path, file in files
            if file.stats is None or "numRecords" not in file.stats
        }

    def listed(self) -> list[dict[str, Any]]:
        """The manifest list as a reader parses it."""
        assert self.made is not None
        data = self.local(self.made.doc["snapshots"][-1]["manifest-list"]).read_bytes()
        return list(read_avro(data).records)

    def iceberg(self) -> StaticTable:
        """The converted table, as PyIceberg opens it."""
        assert self.made is not None
        parse_table(self.made.doc)
        file = self.folder / "_iceberg" / "v1.metadata.json"
        file.write_bytes(msgspec.json.encode(self.made.doc))
        return StaticTable.from_metadata(f"file://{file}")
