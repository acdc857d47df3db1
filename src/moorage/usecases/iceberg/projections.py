"""Iceberg metadata of Delta tables that a client wrote, as Iceberg clients see it: read-only.

A commit to a Delta table may state where the Iceberg metadata of that version is stored. The server uses the file only
if it agrees with the ledger. Delta writers alone maintain the files of the table.
"""

from __future__ import annotations

from typing import Final

from moorage.core.errors import InvalidInput
from moorage.core.locations import locate_in
from moorage.formats.iceberg.documents import Document, text_of
from moorage.formats.iceberg.table_metadata import parse_table

_CONVERTED_VERSION: Final = "delta-version"
"""The property in which Delta's converter records the version."""
_NO_MAINTENANCE: Final = {"gc.enabled": "false"}
"""Iceberg engines would treat files that only Delta knows as orphans, and delete them in storage."""


def parse_projected(raw: Document, version: int, root: str) -> Document:
    """The metadata in a file that describes this version of the table at this location, as Iceberg clients see it."""
    doc = parse_table(raw)
    stated = doc["properties"].get(_CONVERTED_VERSION)
    if stated is None:
        raise InvalidInput(f"it does not state the version it describes; set its property {_CONVERTED_VERSION}")
    if stated != str(version):
        raise InvalidInput(f"it describes version {stated}, but version {version} was committed")
    locate_in((root,), f"{doc['location']}/")
    for snapshot in doc["snapshots"]:
        locate_in((root,), text_of(snapshot, "manifest-list"))
    # Not as config: DuckDB treats every config as credentials of a store, and asks for its region.
    return {**doc, "properties": {**doc["properties"], **_NO_MAINTENANCE}}


def available_from(doc: Document, floor: int) -> Document:
    """The metadata without snapshots of versions below the floor, whose files may be deleted. The newest one stays."""
    snapshots = doc["snapshots"]
    kept = [each for each in snapshots if each["sequence-number"] >= floor] or snapshots[-1:]
    if len(kept) == len(snapshots):
        return doc
    ids = {each["snapshot-id"] for each in kept}
    log = [each for each in doc["snapshot-log"] if each["snapshot-id"] in ids]
    return {**doc, "snapshots": kept, "snapshot-log": log}
