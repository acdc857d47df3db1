"""Checks that this reader supports the reader version and features of a table."""

from __future__ import annotations

from typing import Final

from moorage.core.errors import Unsupported
from moorage.formats.delta.actions import Protocol

READER_VERSION: Final = 3
CATALOG_MANAGED: Final = frozenset(("catalogManaged", "catalogOwned-preview"))
SUPPORTED_FEATURES: Final = CATALOG_MANAGED | {
    "columnMapping",
    "deletionVectors",
    "timestampNtz",
    "typeWidening",
    "typeWidening-preview",
    "v2Checkpoint",
    "vacuumProtocolCheck",
    "variantShredding",
    "variantShredding-preview",
    "variantType",
    "variantType-preview",
}
"""Replay handles everything that these features change about a log. What they change about the rows of a data file
is up to the reader of that file, which also gets the protocol."""


def require_readable(protocol: Protocol, *, is_catalog_managed: bool) -> None:
    """Raise Unsupported if this reader could return wrong content for the table."""
    if protocol.min_reader_version > READER_VERSION:
        raise Unsupported(
            f"the table requires reader version {protocol.min_reader_version}; "
            f"this server supports up to {READER_VERSION}"
        )
    features = frozenset(protocol.reader_features)
    if unknown := features - SUPPORTED_FEATURES:
        raise Unsupported(f"the table requires reader features that are not supported: {', '.join(sorted(unknown))}")
    if not is_catalog_managed and features & CATALOG_MANAGED:
        # Its newest versions may be recorded in the other catalog only.
        raise Unsupported("another catalog manages the table, and only that catalog knows its versions; read it there")
