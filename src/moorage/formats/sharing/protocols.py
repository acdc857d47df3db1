"""The protocol of a table as its recipients see it.

A recipient gets lines, not the log. Features that only change the layout of the log do not concern it, and a client
that checks them would refuse a table that it can read.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from moorage.formats.delta.actions import Metadata, Protocol

LOG_FEATURES: Final = frozenset(
    (
        "catalogManaged",
        "catalogOwned-preview",
        "inCommitTimestamp",
        "inCommitTimestamp-preview",
        "v2Checkpoint",
        "vacuumProtocolCheck",
    )
)
"""How the log is stored and who writes it."""

LOG_PROPERTIES: Final = frozenset(
    (
        "delta.checkpointPolicy",
        "delta.enableInCommitTimestamps",
        "delta.inCommitTimestampEnablementTimestamp",
        "delta.inCommitTimestampEnablementVersion",
    )
)
"""The properties of these features. A client that found one without its feature would refuse the table."""

DELETION_VECTORS: Final = "deletionVectors"
_ENABLE_VECTORS: Final = "delta.enableDeletionVectors"
COLUMN_MAPPING: Final = "columnMapping"
MAPPING_MODE: Final = "delta.columnMapping.mode"
_FEATURES_READER = 3


def needed_features(protocol: Protocol, metadata: Metadata, *, has_vectors: bool) -> frozenset[str]:
    """The reader features that a client must support to read these files of the table."""
    needed = {feature for feature in protocol.reader_features if feature not in LOG_FEATURES}
    needed -= {DELETION_VECTORS, COLUMN_MAPPING}
    if has_vectors:
        needed.add(DELETION_VECTORS)
    if metadata.is_mapped:
        needed.add(COLUMN_MAPPING)
    return frozenset(needed)


def shared_protocol(protocol: Protocol, needed: frozenset[str]) -> Protocol:
    """The protocol without features that change only the log, or that no shared file uses."""
    unused = LOG_FEATURES | ({DELETION_VECTORS, COLUMN_MAPPING} - needed)
    readers = tuple(feature for feature in protocol.reader_features if feature not in unused)
    writers = tuple(feature for feature in protocol.writer_features if feature not in unused)
    version = protocol.min_reader_version
    if version >= _FEATURES_READER and not readers:
        version = 1
    return replace(protocol, min_reader_version=version, reader_features=readers, writer_features=writers)


def shared_metadata(metadata: Metadata, needed: frozenset[str]) -> Metadata:
    """The metadata without the properties of features that `shared_protocol` leaves out."""
    unused = LOG_PROPERTIES if DELETION_VECTORS in needed else LOG_PROPERTIES | {_ENABLE_VECTORS}
    kept = {key: value for key, value in metadata.configuration.items() if key not in unused}
    return metadata if len(kept) == len(metadata.configuration) else replace(metadata, configuration=kept)


def merged_protocol(first: Protocol, second: Protocol) -> Protocol:
    """A protocol that lists what either of two lists. For clients that apply one protocol to many versions."""
    return replace(
        second,
        min_reader_version=max(first.min_reader_version, second.min_reader_version),
        min_writer_version=max(first.min_writer_version, second.min_writer_version),
        reader_features=tuple(dict.fromkeys((*first.reader_features, *second.reader_features))),
        writer_features=tuple(dict.fromkeys((*first.writer_features, *second.writer_features))),
    )
