"""Slices of a snapshot: parts of its files that are planned in one answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from moorage.formats.iceberg.manifests import ContentFile, ManifestFile


class Slice(msgspec.Struct, frozen=True, array_like=True):
    """Some manifests, by their places in the list; or of a single one, some files."""

    first: int
    last: int
    start: int = 0
    stop: int | None = None

    def among(self, manifests: Mapping[int, ManifestFile]) -> list[int]:
        """The places of its manifests."""
        return [at for at in manifests if self.first <= at <= self.last]

    def cut(self, files: Sequence[ContentFile]) -> Sequence[ContentFile]:
        return files if self.start == 0 and self.stop is None else files[self.start : self.stop]


def sliced(manifests: Mapping[int, ManifestFile], files: int, *, most: int) -> list[Slice]:
    """Slices of about so many files each, larger ones if there would be too many.

    A manifest that does not say how many files it has is a slice of its own.
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
