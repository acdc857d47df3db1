"""Whether a staged commit may become the next version: everything but the table's own contract.

The order is the one of the specification's answers, cheapest first: the name before the file, the file's
size before its lines, its first line before the rest.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final

import msgspec

from moorage.core.errors import InvalidInput
from moorage.formats.delta.actions import VECTOR_ID_LENGTH, CommitFile, CommitInfo, Summary, read_commit
from moorage.formats.delta.paths import Inside

FARTHEST_AHEAD_MS: Final = 24 * 3600 * 1000
"""Timestamps must grow, so one writer with a wrong clock could bind a table for years."""

MAINTENANCE: Final = frozenset(("OPTIMIZE", "VACUUM", "REORG"))
"""The first words of what the specification keeps for the catalog. Delta 4.4 writes OPTIMIZE, OPTIMIZE
CHECKPOINT, VACUUM START, VACUUM END, REORG and REORG TABLE UPGRADE UNIFORM."""
CLEAN_UP: Final = frozenset(("DOMAIN METADATA CLEANUP",))
"""Metadata clean-up that shows in a commit. The clean-up of old log files shows in none."""

_FILE_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*\.json")
_VERSION_IN_NAME = re.compile(r"(\d{20})(?!\d)")


class VersionKind(StrEnum):
    """What a version did. Upkeep may run beside appends at any time, beside changes only when they rest."""

    APPEND = "append"
    CHANGE = "change"
    REWRITE = "rewrite"
    METADATA = "metadata"


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """What a request says of its staged file."""

    version: int
    timestamp_ms: int
    file_name: str
    file_size: int
    file_modified_ms: int


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """What a commit is measured against."""

    head_timestamp_ms: int
    now_ms: int
    inside: Inside
    upkeep: bool = False
    """Whether the caller is the catalog's own upkeep, which may do what clients may not."""


def require_fields(proposal: Proposal) -> None:
    """What can be said of a proposal before anything is looked up."""
    numbers = {
        "version": proposal.version,
        "timestamp": proposal.timestamp_ms,
        "file_size": proposal.file_size,
        "file_modification_timestamp": proposal.file_modified_ms,
    }
    for field, number in numbers.items():
        if number <= 0:
            raise InvalidInput(f"{field} must be positive, got {number}", field=field)
    require_file_name(proposal.file_name, proposal.version)


def require_file_name(name: str, version: int) -> None:
    """A plain name ending in .json, which may begin with its version in 20 digits and with no other."""
    if not name:
        raise InvalidInput("file_name is required", field="file_name")
    if len(name) > 255 or not _FILE_NAME.fullmatch(name):
        raise InvalidInput(f"file_name {name!r} is no plain name ending in .json", field="file_name")
    if (found := _VERSION_IN_NAME.match(name)) and int(found[1]) != version:
        raise InvalidInput(f"file_name {name!r} names another version than {version}", field="file_name")


def names_its_version(file_name: str) -> bool:
    """Whether a staged file can belong to one version only, as its name tells."""
    return _VERSION_IN_NAME.match(file_name) is not None


def check_commit(data: bytes, proposal: Proposal, around: Surroundings) -> CommitFile:
    """The staged commit, read and found in order; what it makes of the table is judged elsewhere."""
    if len(data) != proposal.file_size:
        raise InvalidInput(
            f"the staged file has {len(data)} bytes, the request says {proposal.file_size}", field="file_size"
        )
    commit = read_commit(data)
    info = require_timestamp(commit, proposal.timestamp_ms)
    if proposal.timestamp_ms <= around.head_timestamp_ms:
        raise InvalidInput(
            f"timestamp {proposal.timestamp_ms} must be above that of the last version, {around.head_timestamp_ms}",
            field="timestamp",
        )
    require_near(proposal.timestamp_ms, around.now_ms)
    require_paths_inside(commit, around.inside)
    if not around.upkeep:
        refuse_maintenance(info)
    return commit


def check_first_commit(data: bytes, *, now_ms: int, inside: Inside) -> CommitFile:
    """0.json, read and found in order. It was written to its final name at once, so nobody stated its size."""
    commit = read_commit(data)
    if commit.commit_info is not None and commit.commit_info.in_commit_timestamp is not None:
        require_near(commit.commit_info.in_commit_timestamp, now_ms)
    require_paths_inside(commit, inside)
    return commit


def require_near(timestamp_ms: int, now_ms: int) -> None:
    if timestamp_ms > now_ms + FARTHEST_AHEAD_MS:
        raise InvalidInput(f"timestamp {timestamp_ms} lies more than 24 hours ahead", field="timestamp")


def require_timestamp(commit: CommitFile, timestamp_ms: int) -> CommitInfo:
    """The first line is commitInfo and carries the in-commit timestamp that the request states."""
    if commit.commit_info is None:
        raise InvalidInput("the first line of the commit must be its commitInfo", field="commitInfo")
    stated = commit.commit_info.in_commit_timestamp
    if stated is None:
        raise InvalidInput("commitInfo has no inCommitTimestamp", field="commitInfo.inCommitTimestamp")
    if stated != timestamp_ms:
        raise InvalidInput(
            f"commitInfo.inCommitTimestamp is {stated}, the request says {timestamp_ms}", field="timestamp"
        )
    return commit.commit_info


def require_paths_inside(commit: CommitFile, inside: Inside) -> None:
    """Every file and deletion vector that the commit names lies in the table."""
    kinds = (("add", [file.path for file in commit.added]), ("remove", commit.removed), ("cdc", commit.cdc))
    for kind, paths in kinds:
        for path in paths:
            if not inside(path):
                raise _outside(kind, path)
    for vector in commit.vectors:
        place = vector.path_or_inline_dv
        # Of a `u` vector only the folder before its id is a path; any name will do to stand in it.
        path = place if vector.storage_type == "p" else f"{place[:-VECTOR_ID_LENGTH]}/vector"
        if not inside(path):
            raise _outside("deletionVector", place)


def _outside(kind: str, path: str) -> InvalidInput:
    return InvalidInput(
        f"the {kind} of {path!r} lies outside of the table; a managed table holds its own files only, "
        "so it cannot be a shallow clone",
        field=f"{kind}.path",
    )


def refuse_maintenance(info: CommitInfo) -> None:
    operation = (info.operation or "").strip().upper()
    if operation.partition(" ")[0] in MAINTENANCE or operation in CLEAN_UP:
        raise InvalidInput(
            f"{operation} is maintenance, which clients may not run on a catalog-managed table: the catalog does it",
            field="commitInfo.operation",
        )


def version_kind(info: CommitInfo | None, summary: Summary) -> VersionKind:
    """What the version did to the rows of the table."""
    if not summary.adds and not summary.removes and not summary.cdc:
        return VersionKind.METADATA
    if not summary.data_changes and not summary.cdc:
        return VersionKind.REWRITE
    # A writer that read the table before it appended fails when it meets a rewrite, as an update does.
    reads = info is not None and info.is_blind_append is False
    if summary.removes or summary.cdc or summary.deletion_vectors or reads:
        return VersionKind.CHANGE
    return VersionKind.APPEND
