"""The options of jobs about a table. The server checks them before it enqueues a job; its program reads them."""

from __future__ import annotations

from typing import Annotated, Any, Final, TypeVar

import msgspec
from msgspec import Meta

from moorage.core.errors import InvalidInput
from moorage.core.jobs import CHECKPOINT, COMPACT, EXPIRE, ORPHANS, STATISTICS

MIN_TARGET_MB: Final = 8
MAX_TARGET_MB: Final = 2**31 - 1
"""As the Unity API states. A job that it accepted with more than its worker does would fail."""
_Columns = Annotated[tuple[str, ...], Meta(max_length=32)]


class CompactOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How to rewrite the files of a table."""

    target_file_size_mb: Annotated[int, Meta(ge=MIN_TARGET_MB, le=MAX_TARGET_MB)] | None = None
    sort_by: _Columns = ()
    """Iceberg: sort the rows of rewritten files by these columns."""
    zorder_by: _Columns = ()
    """Delta, Iceberg: order the rows of rewritten files by these columns together."""
    where: Annotated[str, Meta(max_length=10_000)] | None = None
    """Iceberg: rewrite only files that may have rows for which this condition is true."""
    purge: bool = False
    """Delta: rewrite every file that has deleted rows."""
    full: bool = False
    """Rewrite files that need no rewrite, too."""
    beside_writers: bool = False
    """Delta, Iceberg: do not wait for writers that change rows. A write of theirs may fail because of the rewrite."""


class ExpireOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Which old versions to remove. Without options, what the properties of the table state."""

    older_than_days: Annotated[float, Meta(ge=0, le=36_500)] | None = None
    keep_last: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    dry_run: bool = False
    """Delta, Lance: only report what would be removed."""


class OrphanOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Which files to delete that no version needs. Younger files may belong to a commit that is being made."""

    older_than_days: Annotated[float, Meta(ge=1, le=36_500)] = 3
    dry_run: bool = False


class CheckpointOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What to write. The properties of the table state the layout of a checkpoint."""

    commits_only: bool = False
    """Write a log compaction: the commits since the last checkpoint in one file, and not all files of the table."""


class StatisticsOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The properties of the table state which columns have statistics."""

    beside_writers: bool = False
    """Do not wait for writers that change rows. A write of theirs may fail because files are added again."""


Options = CheckpointOptions | CompactOptions | ExpireOptions | OrphanOptions | StatisticsOptions
OPTIONS: Final[dict[str, type[Options]]] = {
    CHECKPOINT: CheckpointOptions,
    COMPACT: CompactOptions,
    EXPIRE: ExpireOptions,
    ORPHANS: OrphanOptions,
    STATISTICS: StatisticsOptions,
}
"""By kind of job."""
_FORMATS: Final = {
    (COMPACT, "sort_by"): ("iceberg",),
    (COMPACT, "zorder_by"): ("delta", "iceberg"),
    (COMPACT, "where"): ("iceberg",),
    (COMPACT, "full"): ("delta", "iceberg"),
    (COMPACT, "beside_writers"): ("delta", "iceberg"),
    (EXPIRE, "dry_run"): ("delta", "lance"),
}
"""The formats of options that not all formats have. To ignore a condition would rewrite what the user excluded."""

O = TypeVar("O", bound=Options)  # noqa: E741


def parse_options(args: dict[str, Any], options: type[O]) -> O:
    """The options in the arguments of a job. Other arguments, such as its reason, are ignored."""
    try:
        return msgspec.convert(args, options)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"args: {error}", field="args") from None


def require_options(kind: str, args: dict[str, Any], table_format: str) -> None:
    """Refuse arguments that a job of this kind does not have for tables of a format, or that are out of range."""
    options = OPTIONS[kind]
    known = [name for name in options.__struct_fields__ if table_format in _FORMATS.get((kind, name), (table_format,))]
    unknown = sorted(set(args) - set(known))
    if unknown:
        names = ", ".join(known) or "none"
        raise InvalidInput(
            f"args: {kind} jobs for {table_format} tables have no option {unknown[0]!r}; their options are {names}",
            field="args",
        )
    parse_options(args, options)
