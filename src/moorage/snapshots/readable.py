"""Whether this reader understands a table well enough to say what is in it."""

from __future__ import annotations

from typing import Final

from moorage.core.errors import Unsupported
from moorage.formats.delta.actions import Protocol

READER_VERSION: Final = 3
CATALOG_MANAGED: Final = frozenset(("catalogManaged", "catalogOwned-preview"))
UNDERSTOOD: Final = CATALOG_MANAGED | {
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
"""None of these changes how a log is replayed beyond what replay does. What they mean for the rows of a
file is for the reader of the file, who gets the protocol too."""


def require_readable(protocol: Protocol, *, is_ours: bool) -> None:
    """Unsupported, where reading on could show a table that is not there."""
    if protocol.min_reader_version > READER_VERSION:
        raise Unsupported(f"the table needs readers of version {protocol.min_reader_version}; this is {READER_VERSION}")
    features = frozenset(protocol.reader_features)
    if unknown := features - UNDERSTOOD:
        raise Unsupported(f"the table needs readers that know {', '.join(sorted(unknown))}; this one does not")
    if not is_ours and features & CATALOG_MANAGED:
        # Its newest versions may be known to its own catalog alone.
        raise Unsupported("another catalog manages the table; only that one knows its versions")
