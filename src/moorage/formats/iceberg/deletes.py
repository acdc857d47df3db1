"""Finds the delete files that apply to a data file."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

from moorage.formats.iceberg.manifests import EQUALITY_DELETES, ContentFile
from moorage.formats.iceberg.specs import Spec
from moorage.formats.iceberg.values import Partition

_FILE_PATH: Final = 2147483546
"""The id of the reserved column with the data file of a position delete."""

_NONE: Final[tuple[ContentFile, ...]] = ()


class DeleteIndex:
    """The delete files of a snapshot, indexed by the data files that they can apply to."""

    def __init__(self, files: Iterable[ContentFile], specs: Mapping[int, Spec]) -> None:
        self._global_specs = {id for id, spec in specs.items() if all(field.transform.name == "void" for field in spec)}
        """Unpartitioned specs. In format version 1, a spec whose fields were all dropped still has them as void."""
        self._vectors: dict[str, ContentFile] = {}
        self._by_path: defaultdict[str, list[ContentFile]] = defaultdict(list)
        self._by_partition: defaultdict[tuple[int, Partition], list[ContentFile]] = defaultdict(list)
        self._equality: defaultdict[tuple[int, Partition], list[ContentFile]] = defaultdict(list)
        self._everywhere: list[ContentFile] = []
        self._is_empty = True
        for file in files:
            self._is_empty = False
            self._add(file)

    def _add(self, file: ContentFile) -> None:
        key = (file.spec_id, file.partition)
        if file.content == EQUALITY_DELETES:
            # Equality deletes of an unpartitioned spec apply to the whole table.
            (self._everywhere if file.spec_id in self._global_specs else self._equality[key]).append(file)
            return
        target = _only_target(file)
        if target is None:
            self._by_partition[key].append(file)
        elif file.format == "puffin":
            self._vectors[target] = file
        else:
            self._by_path[target].append(file)

    def of(self, data: ContentFile) -> tuple[ContentFile, ...]:
        """Equality deletes apply only to older rows, position deletes also to rows of their own commit."""
        if self._is_empty:
            return _NONE
        key, sequence = (data.spec_id, data.partition), data.sequence
        equality = (*self._everywhere, *self._equality.get(key, ()))
        found = [file for file in equality if file.sequence > sequence]
        vector = self._vectors.get(data.path)
        if vector is not None and vector.sequence >= sequence:
            # A deletion vector contains all earlier position deletes.
            return (*found, vector)
        positions = (*self._by_partition.get(key, ()), *self._by_path.get(data.path, ()))
        return (*found, *(file for file in positions if file.sequence >= sequence))


def _only_target(file: ContentFile) -> str | None:
    """The data file that position deletes apply to, if there is only one."""
    if file.referenced is not None:
        return file.referenced
    lower, upper = ((bounds or {}).get(_FILE_PATH) for bounds in (file.stats.lower, file.stats.upper))
    return lower.decode() if lower is not None and lower == upper else None
