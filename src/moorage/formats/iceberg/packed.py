"""Documents as the ledger stores them: compressed, because every commit writes them to a log.

JSON is repetitive. It compresses to a tenth, or to much less if there are many snapshots.
"""

from __future__ import annotations

import zstandard

_ONE_PAGE = 4096
"""The page size of the ledger. Compressing a document that fits into one page would save nothing."""
_OPENING = b"{"

# Level 1, because higher levels take longer than the disk needs to write the bytes that they save.
_compress = zstandard.ZstdCompressor(level=1).compress
_decompress = zstandard.ZstdDecompressor().decompress


def pack(document: bytes) -> bytes:
    """Compress a JSON object for storage. Not thread-safe."""
    return document if len(document) <= _ONE_PAGE else _compress(document)


def unpack(kept: bytes) -> bytes:
    return kept if kept.startswith(_OPENING) else _decompress(kept)
