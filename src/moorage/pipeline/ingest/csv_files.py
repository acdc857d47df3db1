"""What Spark must be told of CSV files: the delimiter, and whether fields have line breaks."""

from __future__ import annotations

import re
from codecs import getincrementaldecoder
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np
from pyarrow import fs

from moorage.pipeline.ingest.files import PACKED, open_location

SPLIT_BYTES: Final = 128 * 1024 * 1024
"""Spark reads larger files in several tasks, which cannot know whether they begin between quotes."""
BROKEN_ARCHIVE: Final = re.compile("inflate|decompress", re.IGNORECASE)
"""In the errors about compressed files that cannot be unpacked. Other errors are those of a store."""
_CHUNK_BYTES: Final = 8 * 1024 * 1024
_QUOTE, _LINE_FEED = b'"\n'


def delimiter_of(path: str, given: str | None) -> str:
    """The given delimiter, or the one that the name of the file tells."""
    if given is not None:
        return given
    name = path.lower()
    for suffix in PACKED:
        name = name.removesuffix(suffix)
    return "\t" if name.endswith(".tsv") else ","


def by_line_breaks(paths: Iterable[str], sizes: Mapping[str, int]) -> dict[bool, list[str]]:
    """The files that Spark must read in one task, from their beginning, and those that it may split.

    `sizes`: from the listing. To look up each of many small files takes long in an object store.
    """
    groups: dict[bool, list[str]] = defaultdict(list)
    for path in paths:
        is_one_task = sizes[path] <= SPLIT_BYTES or path.endswith(PACKED)
        groups[is_one_task or has_line_breaks(*open_location(path))].append(path)
    return groups


def is_utf8(path: str) -> bool:
    """Whether the whole file is UTF-8. Spark stores another character in place of other bytes, without a word."""
    system, name = open_location(path)
    decoder = getincrementaldecoder("utf-8")()
    with system.open_input_stream(name, compression="detect") as source:
        try:
            while data := source.read(_CHUNK_BYTES):
                decoder.decode(data)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return False
        except OSError as error:  # Spark finds it too, and names the file
            if not BROKEN_ARCHIVE.search(str(error)):
                raise
    return True


def has_line_breaks(system: fs.FileSystem, name: str) -> bool:
    """Whether a line feed is between quotes. Looks at the bytes, which takes a small part of the time to parse them."""
    quotes = 0
    with system.open_input_stream(name) as source:
        while data := source.read(_CHUNK_BYTES):
            text = np.frombuffer(data, np.uint8)
            at = np.flatnonzero(text == _QUOTE)
            before = quotes + np.searchsorted(at, np.flatnonzero(text == _LINE_FEED))
            if (before & 1).any():
                return True
            quotes += len(at)
    return False
