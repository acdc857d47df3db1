"""Slices of a snapshot: the parts of its files that are planned in one response."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from moorage.formats.iceberg.manifests import ContentFile, ManifestFile


class Slice(msgspec.Struct, frozen=True, array_like=True):
    """A range of manifests, by position in the list, or a range of files of one manifest."""

    first: int
    last: int
    start: int = 0
    stop: int | None = None

    def among(self, manifests: Mapping[int, ManifestFile]) -> list[int]:
        """The positions of its manifests."""
        return [at for at in manifests if self.first <= at <= self.last]

    def cut(self, files: Sequence[ContentFile]) -> Sequence[ContentFile]:
        return files if self.start == 0 and self.stop is None else files[self.start : self.stop]


def sliced(manifests: Mapping[int, ManifestFile], files: int, *, most: int) -> list[Slice]:
    """Slices of about this many files each, or larger ones to stay within `most` slices.

    A manifest without a file count is a slice of its own.
    """
    size = max(files, -(-sum(each.live or files for each in manifests.values()) // most))
    found: list[Slice] = []
    room = 0
    for at, manifest in manifests.items():
        live = manifest.live
        if live is None or live > size:
            parts = [(start, start + size) for start in range(0, live or 1, size)]
            found += [Slice(at, at, start, stop) for start, stop in parts[:-1]]
            found.append(Slice(at, at, parts[-1][0], None))
            room = 0
        elif live <= room:
            found[-1] = Slice(found[-1].first, at)
            room -= live
        else:
            found.append(Slice(at, at))
            room = size - live
    return found
