"""Delta tables as Iceberg's clients see them: to be read only, at the version that was converted last.

Whoever commits to a Delta table may tell where the Iceberg metadata of that version lies. What the file says is
shown as far as it agrees with the ledger; the files of the table stay in the hands of Delta's writers.
"""

from __future__ import annotations

from typing import Final

import msgspec

from moorage.core.errors import InvalidInput
from moorage.core.securables import Securable
from moorage.formats.delta.uniform import is_iceberg_enabled
from moorage.formats.iceberg.documents import Document, text_of
from moorage.formats.iceberg.table_metadata import parse_table
from moorage.usecases.catalog.places import place_around
from moorage.usecases.delta.lookup import UNIFORM, head_of, is_managed

_CONVERTED: Final = "delta-version"
"""The property in which Delta's own converter notes the version."""
_LATEST: Final = "moorage.latest-delta-version"
"""Beside it a reader is told the newest version, so that nobody takes old rows for the newest."""
_NO_UPKEEP: Final = {"gc.enabled": "false"}
"""Iceberg's engines would take the files that only Delta knows for orphans, and delete them without asking us."""


class Projection(msgspec.Struct, frozen=True, kw_only=True):
    """The Iceberg metadata of one version of a Delta table."""

    metadata_location: str
    version: int
    latest: int
    """The newest version of the table, which may not be converted yet."""
    revision: int
    """Of the table's record, which each conversion revises."""

    @property
    def mark(self) -> str:
        """What changes whenever its metadata does."""
        return f"{self.revision}.{self.latest}"


def projection_of(table: Securable) -> Projection | None:
    """Where the table can be read as an Iceberg table; None if it is one, or cannot be read as one."""
    if UNIFORM not in table.doc.details or not is_managed(table) or not is_iceberg_enabled(table.doc.properties):
        return None
    block, latest = table.doc.details[UNIFORM], head_of(table).version
    version = block["converted_delta_version"]
    if version > latest:  # who creates a table may have converted its next version, which is not ratified yet
        return None
    location = block["metadata_location"]
    return Projection(metadata_location=location, version=version, latest=latest, revision=table.revision)


def parse_projected(raw: Document, projection: Projection, place: str) -> Document:
    """The metadata in a file that describes the table at this place, as Iceberg's clients may see it."""
    doc = parse_table(raw)
    said = doc["properties"].get(_CONVERTED, str(projection.version))
    if said != str(projection.version):
        raise InvalidInput(f"it describes version {said}, and version {projection.version} was committed")
    place_around((place,), f"{doc['location']}/")
    for snapshot in doc["snapshots"]:
        place_around((place,), text_of(snapshot, "manifest-list"))
    # Not as config: DuckDB takes every config for credentials of a store, and asks for its region.
    versions = {_CONVERTED: str(projection.version), _LATEST: str(projection.latest)}
    return {**doc, "properties": {**doc["properties"], **versions, **_NO_UPKEEP}}
