"""Finds what follows the first record on a line of JSON. Spark's reader ignores it without a word."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from moorage.pipeline.ingest.parsing import numbered_lines, rejected

REASON: Final = "another record is in front of it on this line; write one record per line"
_OPENING, _CLOSING, _COMMA, _LINE_FEED, _ARRAY, _ARRAY_END = b"{},\n[]"
_IS_BLANK: Final = np.isin(np.arange(256), np.frombuffer(b" \t", np.uint8))
_BETWEEN: Final = " \t,"
_MOST_KEPT: Final = 1_000_000
"""Characters of what follows. A file may have all of its records on one line."""

Bytes = npt.NDArray[np.uint8]
Positions = npt.NDArray[np.int64]

_first_value = json.JSONDecoder().raw_decode


def may_be_crowded(lines: bytes) -> bool:
    """Whether a record may follow another one: an opening brace after a closing one, which a text may have too."""
    text = np.frombuffer(lines, np.uint8)
    before = _skip_blanks(text, np.flatnonzero(text == _OPENING) - 1)
    if (text[before] == _CLOSING).any():
        return True
    before = _skip_blanks(text, before[text[before] == _COMMA] - 1)
    return _is_outside_arrays(text, before[text[before] == _CLOSING])


def _skip_blanks(text: Bytes, positions: Positions) -> Positions:
    """The last position up to each one that has no blank. At the begin of the text it may have one."""
    positions = positions[positions >= 0]
    while (blank := _IS_BLANK[text[positions]] & (positions > 0)).any():
        positions = positions - blank
    return positions


def _is_outside_arrays(text: Bytes, positions: Positions) -> bool:
    """Whether one of the positions is in no array of its line. Objects in an array have commas between them."""
    if not len(positions):
        return False
    starts = np.append(0, np.flatnonzero(text == _LINE_FEED) + 1)
    starts = starts[np.searchsorted(starts, positions, "right") - 1]
    opened, closed = np.flatnonzero(text == _ARRAY), np.flatnonzero(text == _ARRAY_END)

    def depth(at: Positions) -> Positions:
        return np.searchsorted(opened, at) - np.searchsorted(closed, at)

    return bool((depth(positions) <= depth(starts)).any())


def rests_of(path: str) -> Iterator[tuple[int, str]]:
    """What follows the first record of a line, with the number of the line."""
    for number, line in numbered_lines(path):
        if may_be_crowded(line.encode(errors="replace")):
            start = len(line) - len(line.lstrip())
            try:
                _, end = _first_value(line, start)
            except ValueError:  # Spark rejects the whole line
                continue
            if rest := line[end:].strip(_BETWEEN):
                yield number, rest[:_MOST_KEPT]


def explain_rests(batches: Iterator[Any]) -> Iterator[Any]:
    """The lines of files as rejected records. Runs in Spark's tasks; the rows are paths."""
    for batch in batches:
        for path in batch.column(0).to_pylist():
            yield rejected((path, line, REASON, rest) for line, rest in rests_of(path))
