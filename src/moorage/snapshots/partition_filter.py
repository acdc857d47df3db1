"""Partition filters: exact conditions on partition values, which decide which files a reader may see at all.

A predicate only skips files, and in doubt keeps them. A filter protects the other files, and in doubt refuses.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache, reduce
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from moorage.core.errors import Unsupported
from moorage.formats.delta.actions import Metadata
from moorage.formats.delta.file_actions import Texts
from moorage.formats.delta.schema import Schema
from moorage.snapshots.bounds import Column, find_column
from moorage.snapshots.column_values import ColumnType, from_partition_text


class Condition(Protocol):
    """A condition on one partition column: EQUAL or LIKE a value. EQUAL without a value means null."""

    @property
    def name(self) -> str: ...

    @property
    def op(self) -> str: ...

    @property
    def value(self) -> str | None: ...


class _Test:
    """A condition, resolved against a version of the table."""

    def __init__(self, condition: Condition, column: Column) -> None:
        self.key = column.path[0]
        self.matches: Callable[[str | None], bool] = lru_cache(4096)(_matcher(condition, column.type))


class PartitionFilter:
    """Alternatives, each a list of conditions that must all hold. Without alternatives, it admits every file."""

    def __init__(self, alternatives: Sequence[Sequence[Condition]], schema: Schema, metadata: Metadata) -> None:
        self._alternatives = [[_test(each, schema, metadata) for each in tests] for tests in alternatives]

    @property
    def admits_all(self) -> bool:
        return not self._alternatives

    def admits(self, values: Texts | None) -> bool:
        """Whether a file with these partition values may be seen. Raises Unsupported if the log does not state them."""
        if self.admits_all:
            return True
        if values is None:
            raise Unsupported(
                "the log does not state the partition of a removed file, so the filter of the share cannot be "
                "applied to these versions; read a later version"
            )
        # A file without a value for the column, not even null, is from before the table was partitioned by it.
        return any(
            all(test.key in values and test.matches(values[test.key]) for test in tests) for tests in self._alternatives
        )

    def mask(self, files: pa.Table) -> pa.ChunkedArray | None:
        """One bit per file: whether it may be seen. None means all."""
        if self.admits_all:
            return None
        keys = {test.key for tests in self._alternatives for test in tests}
        texts = {key: pc.map_lookup(files["partitionValues"], pa.scalar(key), "first") for key in keys}
        masks = [reduce(pc.and_, [_mask(test, texts[test.key]) for test in tests]) for tests in self._alternatives]
        return reduce(pc.or_, masks)


def _mask(test: _Test, texts: pa.ChunkedArray) -> pa.ChunkedArray:
    distinct = pc.unique(texts)
    verdicts = pa.array([test.matches(text) for text in distinct.to_pylist()], pa.bool_())
    return pc.take(verdicts, pc.index_in(texts, value_set=distinct))


def _test(condition: Condition, schema: Schema, metadata: Metadata) -> _Test:
    column = find_column((condition.name,), schema, metadata)
    if column is None or not column.is_partition:
        raise Unsupported(
            f"the table is shared by the partition column '{condition.name}', which it does not have any more; "
            "the provider must change the share"
        )
    return _Test(condition, column)


def _matcher(condition: Condition, kind: ColumnType) -> Callable[[str | None], bool]:
    wanted = condition.value or None  # Delta writes null as an empty text
    if condition.op == "LIKE":
        pattern = _like(condition.value or "")
        return lambda text: bool(text) and pattern.fullmatch(text or "") is not None
    if wanted is None:
        return lambda text: not text
    value = from_partition_text(wanted, kind)

    def equals(text: str | None) -> bool:
        if not text:
            return False
        found = from_partition_text(text, kind)
        return text == wanted or (found == value and None not in found)

    return equals


def _like(pattern: str) -> re.Pattern[str]:
    """SQL's LIKE: % matches any text, _ one character, and a backslash makes the next character literal."""
    parts: list[str] = []
    characters = iter(pattern)
    for character in characters:
        match character:
            case "%":
                parts.append(".*")
            case "_":
                parts.append(".")
            case "\\":
                parts.append(re.escape(next(characters, "\\")))
            case _:
                parts.append(re.escape(character))
    return re.compile("".join(parts), re.DOTALL)
