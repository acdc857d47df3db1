"""Incremental encoding of metadata as JSON: unchanged lists are copied from the previous version's text.

The snapshots of a table and the snapshot log grow over time, and a commit appends to them. Other parts are small.
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
    """A document and the JSON text that contains it."""

    doc: Document
    text: bytes
    lists: Mapping[str, slice]
    """The positions of the growing lists in the text."""


def written(doc: Document, before: Written | None = None, *, prefix: bytes = b"", suffix: bytes = b"") -> Written:
    """Encode the document as JSON between a prefix and a suffix. The growing lists are at the end."""
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
    position = None if before is None else before.lists.get(name)
    if before is not None and position is not None and before.doc[name]:
        added = gained(before.doc[name], doc[name])
        if added is not None:
            unchanged = memoryview(before.text)[position]
            return (unchanged[:-1], b"," + _encode(added)[1:]) if added else (unchanged,)
    return (_encode(doc[name]),)
