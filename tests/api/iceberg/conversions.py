"""Iceberg metadata of Delta tables, written as a client does that converts by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from moorage.formats.delta.actions import Metadata
from moorage.formats.delta.deletion_vectors import frame
from moorage.formats.delta.log_commits import read_commit
from moorage.formats.delta.replay import to_table
from moorage.testing import delta_writer as write
from moorage.uniform.changes import Change, file_path
from moorage.uniform.conversion import Facts, convert_all
from moorage.uniform.tables import Table
from tests.api.delta.delta_client import Staged

Document = dict[str, Any]
BITMAP = bytes.fromhex("d1d33964") + bytes(8)
"""An empty set of rows, in the form of deletion vectors."""


def convert_files(
    table: Staged, version: int, adds: Sequence[Document], *, metadata: Document | None = None, scheme: str = "file://"
) -> Document:
    """Write the manifests of a version with these files, and return its metadata. Paths begin with the scheme."""
    first = read_commit((table.folder / "_delta_log" / f"{0:020}.json").read_bytes(), version=0, source="0.json")
    assert first.protocol is not None
    described = first.metadata if metadata is None else msgspec.convert(metadata["metaData"], Metadata)
    assert described is not None
    root = f"{table.location}/".replace("file://", scheme)
    files = read_commit(b"\n".join(map(msgspec.json.encode, adds)), version=version, source="client").adds
    vectors = {file_path(root, file.path): file.deletion_vector for file in files}
    frames = {path: (vector, frame(BITMAP)) for path, vector in vectors.items() if vector is not None}
    made = convert_all(
        Table(id=table.id, root=root, protocol=first.protocol, metadata=described),
        to_table(files),
        Change(version=version, timestamp_ms=1),
        base=None,
        facts=Facts(frames=frames),
        token=f"client{len(list(table.folder.rglob('*')))}",
    )
    for path, data in made.files.items():
        file = table.folder / path.removeprefix(root)
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(data)
    return made.doc


def store_metadata(table: Staged, version: int, doc: Document | bytes) -> str:
    """Write a metadata file, and return its location."""
    file = table.folder / "metadata" / f"v{version}.metadata.json"
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(doc if isinstance(doc, bytes) else msgspec.json.encode(doc))
    return f"{table.location}/metadata/{file.name}"


def block_of(location: str, version: int) -> Document:
    return {
        "metadata_location": location,
        "converted_delta_version": version,
        "converted_delta_timestamp": "2026-02-09T17:00:00.000000Z",
    }


def a_file(rows: int = 3, **more: Any) -> Document:
    return write.add(stats=f'{{"numRecords":{rows}}}', **more)
