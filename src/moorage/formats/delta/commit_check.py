"""Checks whether a staged commit may become the next version. The table's own contract is checked in `contract`.

The checks run in the order of the specification's errors, cheapest first: the file name before the file, the
file's size before its lines, its first line before the rest.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

import msgspec

from moorage.core.errors import InvalidInput
from moorage.core.versions import VersionKind
from moorage.formats.delta.actions import VECTOR_ID_LENGTH, CommitFile, CommitInfo, Summary, read_commit
from moorage.formats.delta.paths import Inside, path_check_for

MAX_AHEAD_MS: Final = 24 * 3600 * 1000
"""Timestamps must increase, so one writer with a wrong clock could block a table for years."""

MAINTENANCE: Final = frozenset(("OPTIMIZE", "VACUUM", "REORG"))
"""First words of the operations that the specification reserves for the catalog. Delta 4.4 writes OPTIMIZE,
OPTIMIZE CHECKPOINT, VACUUM START, VACUUM END, REORG and REORG TABLE UPGRADE UNIFORM."""
CLEAN_UP: Final = frozenset(("DOMAIN METADATA CLEANUP",))
"""Metadata clean-up that is recorded in a commit. The clean-up of old log files is not."""

_FILE_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*\.json")
_VERSION_IN_NAME = re.compile(r"(\d{20})(?!\d)")

_path_check = lru_cache(maxsize=4096)(path_check_for)


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """What a request states about its staged file."""

    version: int
    timestamp_ms: int
    file_name: str
    file_size: int
    file_modified_ms: int


class CommitContext(msgspec.Struct, frozen=True, kw_only=True):
    """The values that a commit is checked against."""

    head_timestamp_ms: int
    now_ms: int
    location: str
    """Of the table."""
    upkeep: bool = False
    """Whether the caller is the catalog's own upkeep, which may run operations that clients may not."""

    @property
    def inside(self) -> Inside:
        """Whether a path of the commit is inside the table."""
        return _path_check(self.location)


def require_fields(proposal: Proposal) -> None:
    """Check a proposal before anything is looked up."""
    numbers = (
        ("version", proposal.version),
        ("timestamp", proposal.timestamp_ms),
        ("file_size", proposal.file_size),
        ("file_modification_timestamp", proposal.file_modified_ms),
    )
    for field, number in numbers:
        if number <= 0:
            raise InvalidInput(f"{field} must be positive, got {number}", field=field)
    require_file_name(proposal.file_name, proposal.version)


def require_file_name(name: str, version: int) -> None:
    """Require a plain name that ends in .json. If it begins with a version in 20 digits, that must be its own."""
    if not name:
        raise InvalidInput("file_name is required", field="file_name")
    if len(name) > 255 or not _FILE_NAME.fullmatch(name):
        raise InvalidInput(f"file_name {name!r} must be a plain name that ends in .json", field="file_name")
    if (found := _VERSION_IN_NAME.match(name)) and int(found[1]) != version:
        raise InvalidInput(f"file_name {name!r} must name version {version} or none", field="file_name")


def names_its_version(file_name: str) -> bool:
    """Whether the name of a staged file binds it to one version."""
    return _VERSION_IN_NAME.match(file_name) is not None


def check_commit(data: bytes, proposal: Proposal, around: CommitContext) -> CommitFile:
    """Read and check a staged commit. `contract` checks the table state that results from it."""
    if len(data) != proposal.file_size:
        raise InvalidInput(
            f"the staged file has {len(data)} bytes, but the request states {proposal.file_size}", field="file_size"
        )
    commit = read_commit(data)
    info = require_timestamp(commit, proposal.timestamp_ms)
    if proposal.timestamp_ms <= around.head_timestamp_ms:
        raise InvalidInput(
            f"timestamp {proposal.timestamp_ms} must exceed that of the last version, {around.head_timestamp_ms}",
            field="timestamp",
        )
    require_not_far_ahead(proposal.timestamp_ms, around.now_ms)
    require_paths_inside(commit, around.inside)
    if not around.upkeep:
        refuse_maintenance(info)
    return commit


def check_first_commit(data: bytes, *, now_ms: int, inside: Inside) -> CommitFile:
    """Read and check 0.json. The client wrote it directly to its final name, so no request states its size."""
    commit = read_commit(data)
    if commit.commit_info is not None and commit.commit_info.in_commit_timestamp is not None:
        require_not_far_ahead(commit.commit_info.in_commit_timestamp, now_ms)
    require_paths_inside(commit, inside)
    return commit


def require_not_far_ahead(timestamp_ms: int, now_ms: int) -> None:
    if timestamp_ms > now_ms + MAX_AHEAD_MS:
        raise InvalidInput(
            f"timestamp {timestamp_ms} is more than 24 hours in the future; set the clock of the writer",
            field="timestamp",
        )


def require_timestamp(commit: CommitFile, timestamp_ms: int) -> CommitInfo:
    """Require that the first line is commitInfo with the in-commit timestamp that the request states."""
    if commit.commit_info is None:
        raise InvalidInput("the first line of the commit must be its commitInfo", field="commitInfo")
    stated = commit.commit_info.in_commit_timestamp
    if stated is None:
        raise InvalidInput("commitInfo has no inCommitTimestamp", field="commitInfo.inCommitTimestamp")
    if stated != timestamp_ms:
        raise InvalidInput(
            f"commitInfo.inCommitTimestamp is {stated}, but the request states {timestamp_ms}", field="timestamp"
        )
    return commit.commit_info


def require_paths_inside(commit: CommitFile, inside: Inside) -> None:
    """Require that every file and deletion vector that the commit names is inside the table."""
    kinds = (("add", [file.path for file in commit.added]), ("remove", commit.removed), ("cdc", commit.cdc))
    for kind, paths in kinds:
        for path in paths:
            if not inside(path):
                raise _outside(kind, path)
    for vector in commit.vectors:
        target = vector.path_or_inline_dv
        # In a `u` vector only the folder before the id is a path, so the check uses a placeholder file name.
        path = target if vector.storage_type == "p" else f"{target[:-VECTOR_ID_LENGTH]}/vector"
        if not inside(path):
            raise _outside("deletionVector", target)


def _outside(kind: str, path: str) -> InvalidInput:
    return InvalidInput(
        f"the {kind} of {path!r} is outside the table; a managed table contains only its own files, "
        "so it cannot be a shallow clone",
        field=f"{kind}.path",
    )


def refuse_maintenance(info: CommitInfo) -> None:
    operation = (info.operation or "").strip().upper()
    if operation.partition(" ")[0] in MAINTENANCE or operation in CLEAN_UP:
        raise InvalidInput(
            f"{operation} is maintenance, which only the catalog may run on a catalog-managed table",
            field="commitInfo.operation",
        )


def version_kind(info: CommitInfo | None, summary: Summary) -> VersionKind:
    """What the version did to the rows of the table."""
    if not summary.adds and not summary.removes and not summary.cdc:
        return VersionKind.METADATA
    if not summary.data_changes and not summary.cdc:
        return VersionKind.REWRITE
    # A writer that read the table before it appended conflicts with a rewrite, as an update does.
    reads = info is not None and info.is_blind_append is False
    if summary.removes or summary.cdc or summary.deletion_vectors or reads:
        return VersionKind.CHANGE
    return VersionKind.APPEND
