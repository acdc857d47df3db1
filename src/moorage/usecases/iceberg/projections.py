"""Delta tables as Iceberg's clients see them: to be read only, at the version that was converted last.

Whoever commits to a Delta table may tell where the Iceberg metadata of that version lies. What the file says is
shown as far as it agrees with the ledger; the files of the table stay in the hands of Delta's writers.
"""

from __future__ import annotations

from typing import Final

from moorage.core.errors import InvalidInput
from moorage.core.locations import locate_in
from moorage.formats.iceberg.documents import Document, text_of
from moorage.formats.iceberg.table_metadata import parse_table
from moorage.usecases.formats import Projection

_CONVERTED: Final = "delta-version"
"""The property in which Delta's own converter notes the version."""
_LATEST: Final = "moorage.latest-delta-version"
"""Beside it a reader is told the newest version, so that nobody takes old rows for the newest."""
_NO_UPKEEP: Final = {"gc.enabled": "false"}
"""Iceberg's engines would take the files that only Delta knows for orphans, and delete them without asking us."""


def parse_projected(raw: Document, projection: Projection, place: str) -> Document:
    """The metadata in a file that describes the table at this place, as Iceberg's clients may see it."""
    doc = parse_table(raw)
    said = doc["properties"].get(_CONVERTED, str(projection.version))
    if said != str(projection.version):
        raise InvalidInput(f"it describes version {said}, and version {projection.version} was committed")
    locate_in((place,), f"{doc['location']}/")
    for snapshot in doc["snapshots"]:
        locate_in((place,), text_of(snapshot, "manifest-list"))
    # Not as config: DuckDB takes every config for credentials of a store, and asks for its region.
    versions = {_CONVERTED: str(projection.version), _LATEST: str(projection.latest)}
    return {**doc, "properties": {**doc["properties"], **versions, **_NO_UPKEEP}}
