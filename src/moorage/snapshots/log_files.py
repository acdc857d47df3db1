"""Classification of the files in a log folder by name."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator

import msgspec

from moorage.storage.port import Listed

LOG = "_delta_log/"
SIDECARS = f"{LOG}_sidecars/"
LAST_CHECKPOINT = f"{LOG}_last_checkpoint"

_COMMIT = re.compile(r"(\d{20})\.json")
_COMPACTED = re.compile(r"(\d{20})\.(\d{20})\.compacted\.json")
_CLASSIC = re.compile(r"(\d{20})\.checkpoint\.parquet")
_UNIQUE = re.compile(r"(\d{20})\.checkpoint\.[0-9A-Za-z-]+\.(?:json|parquet)")
_MULTI_PART = re.compile(r"(\d{20})\.checkpoint\.(\d{10})\.(\d{10})\.parquet")
_VERSIONED = re.compile(r"(?:\d{20}\.)?(\d{20})\.(?:json|compacted\.json|crc|checkpoint\.[^/]+)")


def commit_path(version: int) -> str:
    return f"{LOG}{version:020}.json"


def compaction_path(first: int, last: int) -> str:
    return f"{LOG}{first:020}.{last:020}.compacted.json"


def file_version(path: str) -> int | None:
    """Return the newest version that a file of the log folder contains or summarises."""
    found = _VERSIONED.fullmatch(path, len(LOG))
    return None if found is None else int(found[1])


class _Hint(msgspec.Struct):
    version: int


_decode_hint = msgspec.json.Decoder(_Hint).decode


def parse_checkpoint_hint(data: bytes) -> int | None:
    """Parse the version in _last_checkpoint. Returns None if the hint is damaged."""
    try:
        return _decode_hint(data).version
    except msgspec.MsgspecError:
        return None


class Checkpoint(msgspec.Struct, frozen=True):
    """A checkpoint with all its files except sidecars, which only its content names."""

    version: int
    files: tuple[Listed, ...]


class Compaction(msgspec.Struct, frozen=True):
    """A log compaction: the commits from first to last in one file."""

    first: int
    last: int
    file: Listed


class LogFiles(msgspec.Struct, frozen=True):
    commits: dict[int, Listed]
    checkpoints: dict[int, Checkpoint]
    compactions: dict[int, list[Compaction]]
    """By first version, the longest first."""

    @property
    def latest(self) -> int | None:
        return max((*self.commits, *self.checkpoints), default=None)

    @property
    def oldest(self) -> int | None:
        """The oldest version that can still be reconstructed."""
        return min((*self.checkpoints, *({0} & self.commits.keys())), default=None)

    def newest_file(self, version: int) -> Listed | None:
        """Return the file that identifies a version. If the folder was deleted and refilled, the file differs."""
        if version in self.commits:
            return self.commits[version]
        return self.checkpoints[version].files[0] if version in self.checkpoints else None


def read_listing(listed: Iterable[Listed], *, latest: int | None = None) -> LogFiles:
    """Classify the files of a listing up to the latest version. Unknown names are skipped."""
    files = [file for file in listed if latest is None or _version(file) <= latest]
    return LogFiles(
        commits={version: file for (version,), file in _matches(_COMMIT, files)},
        checkpoints=_checkpoints(files),
        compactions=_compactions(files, latest),
    )


def _compactions(files: list[Listed], latest: int | None) -> dict[int, list[Compaction]]:
    found: defaultdict[int, list[Compaction]] = defaultdict(list)
    for (first, last), file in _matches(_COMPACTED, files):
        if first < last and (latest is None or last <= latest):
            found[first].insert(0, Compaction(first, last, file))  # the listing is sorted by name: shorter ones first
    return found


def _checkpoints(files: list[Listed]) -> dict[int, Checkpoint]:
    parts: defaultdict[tuple[int, int], dict[int, Listed]] = defaultdict(dict)
    for (version, number, count), file in _matches(_MULTI_PART, files):
        parts[version, count][number] = file
    # Parts are not written atomically: a checkpoint with a missing part is still being written, or was abandoned.
    in_parts = {
        version: Checkpoint(version, tuple(found[number] for number in sorted(found)))
        for (version, count), found in parts.items()
        if found.keys() == set(range(1, count + 1))
    }
    whole = [*_matches(_CLASSIC, files), *_matches(_UNIQUE, files)]
    return in_parts | {version: Checkpoint(version, (file,)) for (version,), file in whole}


def _version(file: Listed) -> int:
    digits = file.path[len(LOG) :][:20]
    return int(digits) if digits.isascii() and digits.isdigit() else -1


def _matches(pattern: re.Pattern[str], files: Iterable[Listed]) -> Iterator[tuple[list[int], Listed]]:
    for file in files:
        if found := pattern.fullmatch(file.path, len(LOG)):
            yield [int(number) for number in found.groups()], file
