"""The health of a table: what is known about its files, what is wrong with them, and which work mends it. Pure.

A format fills in `TableFacts`; everything else is the same for all formats. Findings have a severity from 0 to 1.
Work is due above a limit that compaction itself always reaches, so that no table is compacted again and again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from math import ceil
from typing import Any, Final

import msgspec

from moorage.core.jobs import CHECKPOINT, COMPACT, EXPIRE, STATISTICS

DUE: Final = 0.3
"""A finding of at least this severity makes its work due."""
TARGET_FILE_BYTES: Final = 128 * 1024 * 1024
SMALL: Final = 0.75
"""A file below this part of the target size is small. A compacted file is never small, except the last of its group."""


class Problem(StrEnum):
    """What can be wrong with a table."""

    SMALL_FILES = "small_files"
    DELETED_ROWS = "deleted_rows"
    DELETE_FILES = "delete_files"
    LONG_LOG = "long_log"
    UNPUBLISHED = "unpublished_commits"
    MISSING_STATISTICS = "missing_statistics"
    UNCLUSTERED = "unclustered_data"
    OVERLAPPING = "overlapping_files"
    OLD_VERSIONS = "old_versions"
    MANY_MANIFESTS = "many_manifests"
    STALE_INDEXES = "stale_indexes"
    SMALL_COMMITS = "small_commits"
    WIDE_SCANS = "wide_scans"
    NOT_CONVERTED = "not_converted"


class Activity(msgspec.Struct, frozen=True, kw_only=True):
    """What clients reported about their last commits and scans."""

    commits: int = 0
    files_added: int = 0
    bytes_added: int = 0
    scans: int = 0
    files_scanned: int = 0


class TableFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about the files of a table at one version. None means unknown, or not part of its format."""

    version: int
    files: int
    bytes: int
    rows: int | None = None
    """Including rows that are marked as deleted."""
    small_files: int = 0
    avoidable_files: int = 0
    """How many files fewer a compaction would leave."""
    deleted_rows: int = 0
    """Rows that are marked as deleted, but still stored."""
    delete_files: int = 0
    """Files and vectors that mark rows as deleted. Readers open them in addition."""
    versions_since_checkpoint: int | None = None
    has_own_log: bool = False
    """Whether this catalog writes the log, and so its checkpoints and statistics."""
    unpublished: int = 0
    files_without_statistics: int = 0
    unclustered_bytes: int = 0
    """Bytes that are not clustered yet, in a table with clustering columns."""
    clustering_depth: float | None = None
    """How many files a file shares values of the clustering columns with, itself included, on average."""
    old_versions: int = 0
    """Versions that may be expired: older than the retention of the table, and not named by a tag or branch."""
    manifests: int | None = None
    avoidable_manifests: int = 0
    unindexed_rows: int = 0
    """Rows that at least one index of the table does not cover."""
    refused_conversion: str | None = None
    """Why clients of another format cannot read this version, although the table is converted for them."""
    activity: Activity = Activity()


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One problem of a table: how severe, why, and the kind of job that mends it, if one does."""

    problem: Problem
    severity: float
    reason: str
    work: str | None
    advice: str

    @property
    def is_due(self) -> bool:
        return self.work is not None and self.severity >= DUE


class Files(msgspec.Struct, frozen=True, kw_only=True):
    """The sizes of files that may be merged with each other: those of one partition."""

    count: int = 0
    bytes: int = 0
    small: int = 0
    small_bytes: int = 0


def avoidable(groups: Iterable[Files], target_bytes: int) -> int:
    """How many files fewer there would be if the small files of each group were merged to the target size."""
    return sum(each.small - ceil(each.small_bytes / target_bytes) for each in groups if each.small > 1)


def small_limit(target_bytes: int) -> int:
    return int(target_bytes * SMALL)


def findings(facts: TableFacts) -> tuple[Finding, ...]:
    """What is wrong with a table, the most severe first."""
    found = (finding for rule in _RULES if (finding := rule(facts)) is not None)
    return tuple(sorted(found, key=lambda each: (-each.severity, each.problem)))


def score(found: Iterable[Finding]) -> int:
    """The health of a table from 0 to 100. Without a finding it is 100."""
    left = 1.0
    for each in found:
        left *= 1.0 - each.severity
    return round(100 * left)


def due_work(found: Iterable[Finding]) -> dict[str, list[Finding]]:
    """The findings whose work is due, by the kind of job that mends them."""
    due: dict[str, list[Finding]] = {}
    for each in found:
        if each.is_due and each.work is not None:
            due.setdefault(each.work, []).append(each)
    return due


# --- the rules ----------------------------------------------------------------------------------


def _small_files(facts: TableFacts) -> Finding | None:
    reason = (
        f"{facts.small_files:,} of {facts.files:,} files are small; compaction would leave "
        f"{facts.avoidable_files:,} files fewer"
    )
    severity = _part(facts.avoidable_files, facts.files) * _ramp(facts.avoidable_files, 20)
    return _finding(Problem.SMALL_FILES, severity, reason, COMPACT, "compact the table")


def _deleted_rows(facts: TableFacts) -> Finding | None:
    reason = f"{facts.deleted_rows:,} of {facts.rows or 0:,} rows are deleted, but still stored and read"
    severity = _ramp(_part(facts.deleted_rows, facts.rows or 0), 0.3)
    return _finding(Problem.DELETED_ROWS, severity, reason, COMPACT, "compact the table, which removes deleted rows")


def _delete_files(facts: TableFacts) -> Finding | None:
    reason = f"readers open {facts.delete_files:,} delete files or vectors in addition to {facts.files:,} data files"
    severity = _ramp(_part(facts.delete_files, facts.files), 1.0) * _ramp(facts.delete_files, 10)
    return _finding(Problem.DELETE_FILES, severity, reason, COMPACT, "compact the table, which applies the deletes")


def _long_log(facts: TableFacts) -> Finding | None:
    length = facts.versions_since_checkpoint or 0
    reason = f"a reader replays {length:,} commits, because the last checkpoint is {length:,} versions old"
    work = CHECKPOINT if facts.has_own_log else None
    return _finding(Problem.LONG_LOG, _ramp(max(length - 20, 0), 300), reason, work, "write a checkpoint")


def _unpublished(facts: TableFacts) -> Finding | None:
    reason = f"{facts.unpublished:,} ratified commits are not in the table's folder yet"
    advice = "the server publishes them; if the number does not fall, look for alarms in its log"
    return _finding(Problem.UNPUBLISHED, _ramp(max(facts.unpublished - 2, 0), 50), reason, None, advice)


def _missing_statistics(facts: TableFacts) -> Finding | None:
    reason = f"{facts.files_without_statistics:,} of {facts.files:,} files have no statistics, so no query skips them"
    severity = _part(facts.files_without_statistics, facts.files) * _ramp(facts.files_without_statistics, 10)
    work = STATISTICS if facts.has_own_log else None
    advice = "compute statistics, and let writers collect them (delta.dataSkippingNumIndexedCols)"
    return _finding(Problem.MISSING_STATISTICS, severity, reason, work, advice)


def _unclustered(facts: TableFacts) -> Finding | None:
    reason = f"{facts.unclustered_bytes:,} of {facts.bytes:,} bytes are not clustered by the clustering columns"
    severity = _part(facts.unclustered_bytes, facts.bytes) * _ramp(facts.files, 4) * _ramp(facts.bytes, 32 << 20)
    return _finding(Problem.UNCLUSTERED, severity, reason, COMPACT, "compact the table, which clusters new files")


def _overlapping(facts: TableFacts) -> Finding | None:
    """Advice only: how deep files overlap depends on the rows, so a compaction does not always mend it."""
    depth = facts.clustering_depth or 0.0
    reason = f"a file shares values of the clustering columns with {depth:,.1f} of {facts.files:,} files on average"
    is_deep = facts.files >= 8 and depth > facts.files / 2
    advice = "compact the table with the option full, or cluster it by other columns"
    return _finding(Problem.OVERLAPPING, 0.2 if is_deep else 0.0, reason, None, advice)


def _old_versions(facts: TableFacts) -> Finding | None:
    reason = f"{facts.old_versions:,} versions are older than the table keeps them, and their files are still stored"
    return _finding(Problem.OLD_VERSIONS, _ramp(facts.old_versions, 100), reason, EXPIRE, "expire old versions")


def _many_manifests(facts: TableFacts) -> Finding | None:
    count = facts.manifests or 0
    reason = f"a reader opens {count:,} manifests; {facts.avoidable_manifests:,} of them could be merged"
    severity = _part(facts.avoidable_manifests, count) * _ramp(facts.avoidable_manifests, 20)
    return _finding(Problem.MANY_MANIFESTS, severity, reason, COMPACT, "compact the table, which merges manifests")


def _stale_indexes(facts: TableFacts) -> Finding | None:
    reason = f"{facts.unindexed_rows:,} of {facts.rows or 0:,} rows are not in every index, so queries scan them"
    severity = _ramp(_part(facts.unindexed_rows, facts.rows or 0), 0.3)
    return _finding(Problem.STALE_INDEXES, severity, reason, COMPACT, "compact the table, which extends its indexes")


def _small_commits(facts: TableFacts) -> Finding | None:
    seen = facts.activity
    average = seen.bytes_added // max(seen.files_added, 1)
    reason = (
        f"the last {seen.commits:,} reported commits added {seen.files_added:,} files of {average:,} bytes on average"
    )
    is_small = seen.files_added >= 20 and average < TARGET_FILE_BYTES // 16
    advice = "let writers commit less often, or merge rows before they write"
    return _finding(Problem.SMALL_COMMITS, 0.1 if is_small else 0.0, reason, None, advice)


def _wide_scans(facts: TableFacts) -> Finding | None:
    seen = facts.activity
    opened = seen.files_scanned // max(seen.scans, 1)
    reason = f"the last {seen.scans:,} reported scans opened {opened:,} of {facts.files:,} files on average"
    is_wide = seen.scans >= 3 and opened >= 100 and opened > facts.files // 2
    advice = "sort, cluster or partition the table by the columns that queries filter on"
    return _finding(Problem.WIDE_SCANS, 0.1 if is_wide else 0.0, reason, None, advice)


def _not_converted(facts: TableFacts) -> Finding | None:
    reason = f"Iceberg clients cannot read version {facts.version}: {facts.refused_conversion}"
    severity = 0.0 if facts.refused_conversion is None else 0.2
    advice = "change the table as the reason says, or switch UniForm off"
    return _finding(Problem.NOT_CONVERTED, severity, reason, None, advice)


_RULES: Final[tuple[Callable[[TableFacts], Finding | None], ...]] = (
    _small_files,
    _deleted_rows,
    _delete_files,
    _long_log,
    _unpublished,
    _missing_statistics,
    _unclustered,
    _overlapping,
    _old_versions,
    _many_manifests,
    _stale_indexes,
    _small_commits,
    _wide_scans,
    _not_converted,
)


def _finding(problem: Problem, severity: float, reason: str, work: str | None, advice: str) -> Finding | None:
    rounded = round(min(severity, 1.0), 2)
    if rounded <= 0:
        return None
    return Finding(problem=problem, severity=rounded, reason=reason, work=work, advice=advice)


def _part(some: int, of: int) -> float:
    return some / of if of > 0 else 0.0


def _ramp(value: float, full: float) -> float:
    """Rises from 0 to 1 as a value rises from 0 to `full`."""
    return min(max(value, 0.0) / full, 1.0)


# --- policies -----------------------------------------------------------------------------------

POLICY: Final = "moorage.upkeep.policy"
"""The property of a catalog, namespace or table. The nearest one decides."""


class Policy(StrEnum):
    """What the server does with the work that a table needs."""

    OFF = "off"
    ADVISE = "advise"
    AUTO = "auto"


class AppliedPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """The policy of a table, and the object that sets it; None if it is the default."""

    policy: Policy = Policy.ADVISE
    set_by: str | None = None
    problem: str | None = None
    """Why the stated policy is not valid. `advise` applies then."""


def applied_policy(chain: Iterable[tuple[str, Mapping[str, Any]]]) -> AppliedPolicy:
    """The policy of a table, from the names and properties of its chain, outermost first."""
    found = AppliedPolicy()
    for name, properties in chain:
        stated = properties.get(POLICY)
        if stated is None:
            continue
        try:
            found = AppliedPolicy(policy=Policy(str(stated).lower()), set_by=name)
        except ValueError:
            problem = f"{POLICY} of '{name}' is '{stated}'; it must be off, advise or auto"
            found = AppliedPolicy(set_by=name, problem=problem)
    return found
