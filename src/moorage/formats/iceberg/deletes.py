"""Which delete files apply to a data file."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

from moorage.formats.iceberg.manifests import EQUALITY_DELETES, ContentFile
from moorage.formats.iceberg.specs import Spec
from moorage.formats.iceberg.values import Partition

_FILE_PATH: Final = 2147483546
"""The reserved column in which position deletes name the file that they delete from."""

_NONE: Final[tuple[ContentFile, ...]] = ()


class DeleteIndex:
    """The delete files of a snapshot, by what they can apply to."""

    def __init__(self, files: Iterable[ContentFile], specs: Mapping[int, Spec]) -> None:
        self._global = {id for id, spec in specs.items() if all(field.transform.name == "void" for field in spec)}
        """Specs that part nothing; one whose fields were all dropped, in format version 1, still has them as void."""
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
        place = (file.spec_id, file.partition)
        if file.content == EQUALITY_DELETES:
            # Written under a spec that parts nothing, they hold for the whole table.
            (self._everywhere if file.spec_id in self._global else self._equality[place]).append(file)
            return
        target = _only_target(file)
        if target is None:
            self._by_partition[place].append(file)
        elif file.format == "puffin":
            self._vectors[target] = file
        else:
            self._by_path[target].append(file)

    def of(self, data: ContentFile) -> tuple[ContentFile, ...]:
        """Equality deletes hold for older rows only; position deletes for rows of their own commit too."""
        if self._is_empty:
            return _NONE
        place, sequence = (data.spec_id, data.partition), data.sequence
        equality = (*self._everywhere, *self._equality.get(place, ()))
        found = [file for file in equality if file.sequence > sequence]
        vector = self._vectors.get(data.path)
        if vector is not None and vector.sequence >= sequence:
            # It has taken in all position deletes of before.
            return (*found, vector)
        positions = (*self._by_partition.get(place, ()), *self._by_path.get(data.path, ()))
        return (*found, *(file for file in positions if file.sequence >= sequence))


def _only_target(file: ContentFile) -> str | None:
    """The one data file that position deletes are for, if there is but one."""
    if file.referenced is not None:
        return file.referenced
    lower, upper = ((bounds or {}).get(_FILE_PATH) for bounds in (file.stats.lower, file.stats.upper))
    return lower.decode() if lower is not None and lower == upper else None
