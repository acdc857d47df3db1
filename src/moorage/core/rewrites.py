"""Rewrites of a table's files by a worker: what the server hands out, and what it makes of the result."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from moorage.core.ids import JobId
from moorage.core.job_options import CompactOptions

_MEGABYTE: Final = 1024 * 1024
DEFAULT_TARGET_MB: Final = 128


class RewriteMode(StrEnum):
    """What a rewrite is for."""

    BIN_PACK = "bin_pack"
    """Join small files, and rewrite files of which many rows are deleted."""
    CLUSTER = "cluster"
    """Order rows by the clustering columns of the table."""
    Z_ORDER = "z_order"
    """Order rows by columns that the request names."""
    PURGE = "purge"
    """Rewrite every file that has deleted rows, so that these rows are gone from storage after a vacuum."""


def target_bytes(options: CompactOptions) -> int:
    """How large rewritten files should become."""
    return (options.target_file_size_mb or DEFAULT_TARGET_MB) * _MEGABYTE


class Shadow(msgspec.Struct, frozen=True, kw_only=True):
    """A small table inside the folder of the real one, with the files to rewrite. The worker optimises this table."""

    folder: str
    """Relative to the table's location."""
    location: str
    """Absolute, as Hadoop prints it."""
    base_version: int
    mode: RewriteMode
    target_bytes: int
    columns: tuple[str, ...] = ()
    """The columns of a Z-order."""
    full: bool = False
    files: int
    bytes: int
    remaining_files: int
    """How many files of the table the job will still rewrite after this shadow, as far as known now."""


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """The job must wait for writers of the table. The worker postpones it."""

    until_ms: int
    reason: str


class NextShadow(msgspec.Struct, frozen=True, kw_only=True):
    """The next step of a compaction: a shadow, a wait, or neither if nothing is left to do."""

    shadow: Shadow | None = None
    waiting: Waiting | None = None
    storage: dict[str, str] = {}
    """Settings of Hadoop with a key for the files of the table; empty if the worker needs none, or has its own."""

    def __repr__(self) -> str:
        """Omits the key, because this text may be logged."""
        return f"NextShadow({self.shadow}, {self.waiting})"


class OfferOutcome(StrEnum):
    """What became of a rewritten shadow."""

    COMMITTED = "committed"
    DROPPED = "dropped"
    """The table changed so that the rewrite no longer applies. Nothing was committed; plan again."""
    UNCHANGED = "unchanged"
    """The worker rewrote nothing."""


class Rewritten(msgspec.Struct, frozen=True, kw_only=True):
    """The files that a rewrite replaced, and those that it added."""

    files_removed: int = 0
    bytes_removed: int = 0
    files_added: int = 0
    bytes_added: int = 0


class OfferResult(msgspec.Struct, frozen=True, kw_only=True):
    outcome: OfferOutcome
    version: int | None = None
    reason: str | None = None
    """Why nothing was committed, or why partitions were left out."""
    rewritten: Rewritten | None = None
    """None if nothing was committed, or the request was answered before."""


class Expired(msgspec.Struct, frozen=True, kw_only=True):
    """What a vacuum announced or deleted."""

    floor: int
    files: int
    bytes: int
    job: str | None = None
    """The job that will delete these files."""
    log_files: int = 0
    """How many files of the log were deleted."""
    held_by: tuple[str, ...] = ()
    """Why versions past their retention stay available."""


class Checkpointed(msgspec.Struct, frozen=True, kw_only=True):
    """The checkpoint that a job wrote, or found."""

    version: int
    is_new: bool
    replayed_before: int
    """How many commits a reader of this version replayed before."""
    files: int = 0
    bytes: int = 0
    """The size of the checkpoint."""


class StatisticsAdded(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a statistics job."""

    missing: int = 0
    """How many files of the table had no statistics before this step."""
    files: int = 0
    """How many files have statistics now."""
    unreadable: int = 0
    """How many files are missing in storage, or are not Parquet files."""
    version: int | None = None
    """The version with the statistics; None if nothing was committed."""
    after: str | None = None
    """Where the next step begins; None if this was the last one."""
    waiting: Waiting | None = None


class ChangeShadow(msgspec.Struct, frozen=True, kw_only=True):
    """A plain Delta table inside the folder of a managed one, on which a client changes rows."""

    table_id: str
    folder: str
    """Relative to the table's location."""
    location: str
    """Absolute, as Hadoop prints it."""
    base_version: int
    files: int
    last_transaction: int | None = None
    """The last transaction of the application that the client named."""


FOLDER_PREFIX: Final = "compact-"
"""Not hidden by an underscore, so every vacuum sees the folder."""
CHANGE_PREFIX: Final = "change-"
"""Of the folders in which clients change rows."""


def job_folder(job: JobId) -> str:
    """The folder of all files that a job writes in a table."""
    return f"{FOLDER_PREFIX}{job}/"
