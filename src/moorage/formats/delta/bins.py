"""Chooses the files of a table that a rewrite should join. Pure.

The choice for bin-packing repeats that of Delta's OPTIMIZE (sort by size, fill up to the target), so that a shadow
contains only files that Spark will rewrite, and a compacted table has nothing left to choose.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final
from urllib.parse import unquote

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from moorage.core.rewrites import RewriteMode
from moorage.formats.delta.partition_values import normal
from moorage.formats.delta.shadow import absolute

MAX_FILES: Final = 10_000
"""Of one shadow. Its log is one JSON file, which Spark reads whole."""
MAX_BYTES: Final = 64 * 1024**3
"""Of one shadow, unless a single file is larger. A conflict costs the work on one shadow."""
SMALL: Final = 0.75
"""A file below this part of the target is small. Compacted files come close to the target, but rarely reach it."""
MAX_DELETED: Final = 0.05
"""Delta's own limit: above it, a file is rewritten to drop its deleted rows."""

_OTHER_SPELLING: Final = "%|:|^/"
"""Paths that are absolute or have escapes."""


class _File(msgspec.Struct, frozen=True, gc=False):
    row: int
    size: int
    modified: int
    must: bool
    """Whether the file is rewritten even alone, because many of its rows are deleted."""


def choose(
    files: pa.Table, mode: RewriteMode, target_bytes: int, *, not_below: str, types: dict[str, str]
) -> tuple[list[int], int]:
    """The rows of the files for the next shadow, and how many files are left for later ones.

    `not_below`: files in this folder are results of the same job, and are not rewritten again.
    """
    rows = _candidates(files, mode, target_bytes, not_below)
    partitions = _partitions(files, rows)
    if mode is RewriteMode.BIN_PACK:
        partitions = {key: _packed(found, target_bytes) for key, found in partitions.items()}
    # The oldest partition first, by its oldest file.
    ordered = sorted((found for found in partitions.items() if found[1]), key=lambda found: _age(found[1]))
    chosen = _fill(ordered, types)
    return chosen, sum(len(found) for _, found in ordered) - len(chosen)


def _candidates(files: pa.Table, mode: RewriteMode, target_bytes: int, not_below: str) -> list[_File]:
    vectors = files["deletionVector"]
    has_vector = pc.is_valid(vectors)
    keep = pc.invert(pc.starts_with(files["path"], not_below))
    if mode is RewriteMode.PURGE:
        keep = pc.and_(keep, has_vector)
    elif mode is RewriteMode.BIN_PACK:
        keep = pc.and_(keep, pc.or_(pc.less(files["size"], int(target_bytes * SMALL)), has_vector))
    at = pc.indices_nonzero(keep)
    rows = at.to_pylist()
    found = files.select(["size", "modificationTime", "stats"]).take(at)
    deleted = pc.fill_null(pc.struct_field(vectors, "cardinality"), 0).take(at)
    columns = (found["size"].to_pylist(), found["modificationTime"].to_pylist(), deleted.to_pylist())
    # Statistics are long texts, so only those of files with deleted rows are read.
    stats = found["stats"]
    every = mode is not RewriteMode.BIN_PACK
    return [
        _File(row, size, modified, every or worn)
        for n, (row, size, modified, count) in enumerate(zip(rows, *columns, strict=True))
        if (worn := bool(count) and _is_worn(count, stats[n].as_py())) or every or size < target_bytes * SMALL
    ]


class _Stats(msgspec.Struct, rename="camel"):
    num_records: int | None = None


def _is_worn(deleted: int, stats: str | None) -> bool:
    """Whether so many rows are deleted that the file should be rewritten."""
    try:
        rows = None if stats is None else msgspec.json.decode(stats, type=_Stats).num_records
    except msgspec.MsgspecError:
        rows = None
    return not rows or deleted / rows > MAX_DELETED


Key = frozenset[tuple[str, str | None]]


def _partitions(files: pa.Table, rows: list[_File]) -> dict[Key, list[_File]]:
    """The files by their partition values. Spark joins only files whose values are written alike."""
    grouped: dict[Key, list[_File]] = {}
    values = files["partitionValues"].take(pa.array([file.row for file in rows], pa.int64())).to_pylist()
    for file, pairs in zip(rows, values, strict=True):
        grouped.setdefault(frozenset(pairs), []).append(file)
    return grouped


def _packed(files: list[_File], target_bytes: int) -> list[_File]:
    """The files that OPTIMIZE would rewrite: those that share a bin, and those with many deleted rows."""
    chosen: list[_File] = []
    together: list[_File] = []
    size = 0
    for file in sorted(files, key=lambda file: file.size):
        if together and size + file.size > target_bytes:
            chosen += _worthwhile(together)
            together, size = [], 0
        together.append(file)
        size += file.size
    return chosen + _worthwhile(together)


def _worthwhile(together: list[_File]) -> list[_File]:
    return together if len(together) > 1 or any(file.must for file in together) else []


def _age(files: Iterable[_File]) -> int:
    return min(file.modified for file in files)


def _fill(ordered: list[tuple[Key, list[_File]]], types: dict[str, str]) -> list[int]:
    """Fill one shadow with whole partitions, or with a part of one that is too large.

    Two partitions whose values are one value in two spellings do not share a shadow: it would be unknown which of the
    two a new file belongs to.
    """
    chosen: list[int] = []
    size, spelled = 0, set()
    for key, files in ordered:
        value = normal(dict(key), types)
        total = sum(file.size for file in files)
        fits = len(chosen) + len(files) <= MAX_FILES and size + total <= MAX_BYTES
        if value in spelled or (chosen and not fits):
            continue
        spelled.add(value)
        chosen += [file.row for file in (files if fits else _first(files))]
        size += total
        if not fits:
            break
    return chosen


def _first(files: list[_File]) -> list[_File]:
    """As many files of one partition as fit in a shadow."""
    taken: list[_File] = []
    size = 0
    for file in files:
        if taken and (len(taken) == MAX_FILES or size + file.size > MAX_BYTES):
            break
        taken.append(file)
        size += file.size
    return taken


def bytes_of(files: pa.Table) -> int:
    return pc.sum(files["size"]).as_py() or 0


def find_files(files: pa.Table, wanted: Collection[str], root: str) -> pa.Table:
    """The files with these absolute, decoded paths. `root` is the Hadoop location of the table."""
    # A log may spell one path in several ways. The fast way first: most paths are relative and have no escapes.
    start = len(unquote(root))
    plain = [path[start:] for path in wanted]
    found = files.filter(pc.is_in(files["path"], value_set=pa.array(plain, pa.string())))
    if found.num_rows == len(plain) and not _has_other_spelling(plain):
        return found
    plainly = found.filter(pc.invert(pc.match_substring_regex(found["path"], _OTHER_SPELLING)))
    if plainly.num_rows == len(wanted):
        return plainly
    other = files.filter(pc.match_substring_regex(files["path"], _OTHER_SPELLING))
    names = set(wanted)
    rows = [row for row, path in enumerate(other["path"].to_pylist()) if unquote(absolute(path, root)) in names]
    return pa.concat_tables([plainly, other.take(pa.array(rows, pa.int64()))])


def _has_other_spelling(paths: Iterable[str]) -> bool:
    """Whether any of the paths matches _OTHER_SPELLING. One search in all of them, because thousands take longer."""
    text = "\n".join(("", *paths))
    return "%" in text or ":" in text or "\n/" in text
