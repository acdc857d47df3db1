"""What the catalog requires and suggests before a client writes the first version of a table."""

from __future__ import annotations

from typing import Final

import msgspec

from moorage.formats.delta.contract import DELTA_API_TERMS, MIN_READER, MIN_WRITER, TABLE_ID, WRITER_ONLY

SUGGESTED_FEATURES: Final = ("columnMapping", "domainMetadata", "rowTracking")
SUGGESTED_PROPERTIES: Final[dict[str, str | None]] = {
    "delta.enableRowTracking": "true",
    "delta.rowTracking.materializedRowIdColumnName": None,
    "delta.rowTracking.materializedRowCommitVersionColumnName": None,
    "delta.columnMapping.mode": "name",
    "delta.columnMapping.maxColumnId": None,
    "delta.randomizeFilePrefixes": "true",
    "delta.parquet.compression.codec": "zstd",
    # Clients delete expired log files after each checkpoint, even in managed tables. Only this property stops them.
    "delta.enableExpiredLogCleanup": "false",
}
"""Null means that the client generates the value."""


class ProtocolBlock(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", omit_defaults=True):
    """Protocol versions and features. The suggested block has no versions."""

    min_reader_version: int | None = None
    min_writer_version: int | None = None
    reader_features: tuple[str, ...]
    writer_features: tuple[str, ...]


class StagingTerms(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """The blocks of `/delta/v1`'s staging response that do not depend on storage."""

    required_protocol: ProtocolBlock
    suggested_protocol: ProtocolBlock
    required_properties: dict[str, str]
    suggested_properties: dict[str, str | None]


def staging_terms(table_id: str) -> StagingTerms:
    """The terms for the future table with this id."""
    return StagingTerms(
        required_protocol=ProtocolBlock(
            min_reader_version=MIN_READER,
            min_writer_version=MIN_WRITER,
            reader_features=_reader_features(DELTA_API_TERMS.features),
            writer_features=DELTA_API_TERMS.features,
        ),
        suggested_protocol=ProtocolBlock(
            reader_features=_reader_features(SUGGESTED_FEATURES), writer_features=SUGGESTED_FEATURES
        ),
        required_properties=DELTA_API_TERMS.properties | {TABLE_ID: table_id},
        suggested_properties=dict(SUGGESTED_PROPERTIES),
    )


def _reader_features(features: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(feature for feature in features if feature not in WRITER_ONLY)
