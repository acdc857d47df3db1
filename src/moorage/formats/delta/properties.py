"""A table's properties as Unity shows them: its configuration, and values derived from the rest of its log."""

from __future__ import annotations

from typing import Final

import msgspec

from moorage.formats.delta import clustering
from moorage.formats.delta.actions import Protocol
from moorage.formats.delta.contract import TableState

FEATURE_PREFIX: Final = "delta.feature."
MIN_READER_VERSION: Final = "delta.minReaderVersion"
MIN_WRITER_VERSION: Final = "delta.minWriterVersion"
LAST_UPDATE_VERSION: Final = "delta.lastUpdateVersion"
LAST_COMMIT_TIMESTAMP: Final = "delta.lastCommitTimestamp"
ROW_ID_HIGH_WATER_MARK: Final = "delta.rowTracking.rowIdHighWaterMark"

FROM_VERSIONS: Final = frozenset(
    (LAST_UPDATE_VERSION, LAST_COMMIT_TIMESTAMP, ROW_ID_HIGH_WATER_MARK, clustering.PROPERTY)
)
"""Properties that change with the table's versions. A client that sends back what it read may send old values."""


def shown_properties(state: TableState) -> dict[str, str]:
    """The properties that a client sees. A key derived from the log overrides one that a user set."""
    shown = dict(state.configuration)
    shown.update(protocol_properties(state.protocol))
    shown[LAST_UPDATE_VERSION] = str(state.last_update_version)
    shown[LAST_COMMIT_TIMESTAMP] = str(state.last_commit_timestamp)
    if state.row_id_mark is not None:
        shown[ROW_ID_HIGH_WATER_MARK] = str(state.row_id_mark)
    if (columns := clustering_columns(state)) is not None:
        shown[clustering.PROPERTY] = msgspec.json.encode(columns).decode()
    return shown


def protocol_properties(protocol: Protocol) -> dict[str, str]:
    """The protocol as properties: its two versions, and every feature as supported."""
    versions = {
        MIN_READER_VERSION: str(protocol.min_reader_version),
        MIN_WRITER_VERSION: str(protocol.min_writer_version),
    }
    return versions | {FEATURE_PREFIX + feature: "supported" for feature in sorted(protocol.features)}


def is_protocol_property(key: str) -> bool:
    return key.startswith(FEATURE_PREFIX) or key in (MIN_READER_VERSION, MIN_WRITER_VERSION)


def clustering_columns(state: TableState) -> clustering.ColumnPaths | None:
    """The clustering columns by logical name; None if the table has no clustering."""
    configuration = state.domains.get(clustering.DOMAIN)
    return None if configuration is None else clustering.logical(clustering.parse_domain(configuration), state.schema)
