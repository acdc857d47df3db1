"""Documents as the ledger keeps them: packed, because what is written to a log by every commit had better be small.

JSON repeats itself: a tenth of it is left, or much less where snapshots are many.
"""

from __future__ import annotations

import zstandard

_ONE_PAGE = 4096
"""Of the ledger. What fits into it costs no less if it is smaller, so it stays as it is."""
_OPENING = b"{"

# The fastest that is worth the name: the higher levels take longer than the disk would for what they save.
_compress = zstandard.ZstdCompressor(level=1).compress
_decompress = zstandard.ZstdDecompressor().decompress


def pack(document: bytes) -> bytes:
    """An object in JSON as it is kept. Not for two threads at the same time."""
    return document if len(document) <= _ONE_PAGE else _compress(document)


def unpack(kept: bytes) -> bytes:
    return kept if kept.startswith(_OPENING) else _decompress(kept)
