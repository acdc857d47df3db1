"""Finds what follows the first record on a line of JSON. Spark's reader ignores it without a word."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from moorage.pipeline.ingest.parsing import numbered_lines, rejected

REASON: Final = "another record is in front of it on this line; write one record per line"
_OPENING, _CLOSING, _SPACE = b"{} "
_MOST_KEPT: Final = 1_000_000
"""Characters of what follows. A file may have all of its records on one line."""

_first_value = json.JSONDecoder().raw_decode


def may_be_crowded(lines: bytes) -> bool:
    """Whether a record may follow another one: an opening brace after a closing one, which a text may have too."""
    text = np.frombuffer(lines, np.uint8)
    opening = np.flatnonzero(text[2:] == _OPENING) + 2  # before the third byte no record can have ended
    before = text[opening - 1]
    return bool(((before == _CLOSING) | ((before == _SPACE) & (text[opening - 2] == _CLOSING))).any())


def rests_of(path: str) -> Iterator[tuple[int, str]]:
    """What follows the first record of a line, with the number of the line."""
    for number, line in numbered_lines(path):
        if may_be_crowded(line.encode(errors="replace")):
            start = len(line) - len(line.lstrip())
            try:
                _, end = _first_value(line, start)
            except ValueError:  # Spark rejects the whole line
                continue
            if rest := line[end:].strip():
                yield number, rest[:_MOST_KEPT]


def explain_rests(batches: Iterator[Any]) -> Iterator[Any]:
    """The lines of files as rejected records. Runs in Spark's tasks; the rows are paths."""
    for batch in batches:
        for path in batch.column(0).to_pylist():
            yield rejected((path, line, REASON, rest) for line, rest in rests_of(path))
