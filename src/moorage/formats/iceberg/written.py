"""Metadata as JSON: what was written for the version before is copied, and only what is new is written.

The snapshots of a table and their log grow with its age, and a commit adds to their ends. All else is small.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from moorage.formats.iceberg.documents import Document, gained

_GROWING = ("snapshots", "snapshot-log")

_Piece = bytes | memoryview

_encode = msgspec.json.Encoder().encode


class Written(NamedTuple):
    """A document and a text that holds it as JSON."""

    doc: Document
    text: bytes
    lists: Mapping[str, slice]
    """Where in the text the lists are that grow."""


def written(doc: Document, before: Written | None = None, *, prefix: bytes = b"", suffix: bytes = b"") -> Written:
    """The document as JSON between a prefix and a suffix. The lists that grow come last."""
    rest = _encode({name: value for name, value in doc.items() if name not in _GROWING})
    pieces: list[_Piece] = [prefix, memoryview(rest)[:-1]]
    end, lists = len(prefix) + len(rest) - 1, dict[str, slice]()
    for name in _GROWING:
        if name in doc:
            label, parts = b',"%b":' % name.encode(), _list(name, doc, before)
            start = end + len(label)
            end = start + sum(map(len, parts))
            pieces += (label, *parts)
            lists[name] = slice(start, end)
    return Written(doc, b"".join((*pieces, b"}", suffix)), lists)


def _list(name: str, doc: Document, before: Written | None) -> tuple[_Piece, ...]:
    place = None if before is None else before.lists.get(name)
    if before is not None and place is not None and before.doc[name]:
        added = gained(before.doc[name], doc[name])
        if added is not None:
            same = memoryview(before.text)[place]
            return (same[:-1], b"," + _encode(added)[1:]) if added else (same,)
    return (_encode(doc[name]),)
