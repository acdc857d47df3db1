"""Documents as the ledger keeps them: packed, because what is written to a log by every commit had better be small.

JSON repeats itself: a tenth of it is left, or much less where snapshots are many.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import zstandard

# The fastest that is worth the name: the higher levels take longer than the disk would for what they save.
pack: Final[Callable[[bytes], bytes]] = zstandard.ZstdCompressor(level=1).compress
"""Not for two threads at the same time."""
unpack: Final[Callable[[bytes], bytes]] = zstandard.ZstdDecompressor().decompress
