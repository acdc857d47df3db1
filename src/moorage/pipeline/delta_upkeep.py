"""Compaction of Delta tables with Spark.

The files of a managed table are rewritten in a shadow, a small table that the server prepares, and the server commits
the result. An external table is optimised where it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from msgspec.structs import asdict

from moorage.client import Client
from moorage.client.answers import Job, LocatedTable
from moorage.core.job_options import CheckpointOptions, CompactOptions, parse_options
from moorage.core.rewrites import OfferOutcome, RewriteMode, Rewritten, Shadow, target_bytes
from moorage.faults import reach
from moorage.pipeline.figures import figures
from moorage.pipeline.program import PermanentFailure, Postponed, Progress
from moorage.pipeline.spark_facts import spark_facts
from moorage.pipeline.statements import own_session, quoted, run_statement
from moorage.pipeline.warm_session import WarmSession

_MAX_DROPS: Final = 3
"""Shadows dropped in a row because the table kept changing. Then the attempt fails, and the next one comes later."""
_SIZES: Final = ("spark.databricks.delta.optimize.minFileSize", "spark.databricks.delta.optimize.maxFileSize")


class TableKeepsChanging(Exception):
    """The files of every shadow were changed by other writers before it was rewritten."""


def compact_delta(
    job: Job, table: LocatedTable, client: Client, progress: Progress, spark: WarmSession
) -> dict[str, Any]:
    """Rewrite the small files of a Delta table, and return what was rewritten."""
    if not table.managed:
        return _optimise_external(job, table, client, progress, spark)
    before, done, versions = figures(client, table), _nothing_yet(), list[int | None]()
    drops, total = 0, None
    # A table that is written to always has new small files. The job ends with as many as it found at its start.
    while total is None or done["files_removed"] < total:
        following = client.rewrites.next_shadow(table.id)
        if following.waiting is not None:
            raise Postponed(following.waiting.reason, following.waiting.until_ms)
        shadow = following.shadow
        if shadow is None:
            break
        total = total or shadow.files + shadow.remaining_files
        share = done["files_removed"] / total
        reach("worker.planned")
        progress({"step": f"rewriting {shadow.files} files", "fraction": share, "rewritten": dict(done)})
        metrics = optimise(spark, shadow, job, progress, following.storage)
        reach("worker.rewritten")
        result = client.rewrites.offer(table.id, shadow)
        reach("worker.offered")
        if result.outcome is OfferOutcome.UNCHANGED:
            break
        drops = drops + 1 if result.outcome is OfferOutcome.DROPPED else 0
        if drops == _MAX_DROPS:
            raise TableKeepsChanging(f"{drops} rewrites in a row were dropped, the last because {result.reason}")
        if result.outcome is OfferOutcome.COMMITTED:
            _add(done, _counts(metrics) if result.rewritten is None else asdict(result.rewritten))
            versions.append(result.version)
        if result.reason is not None:
            progress({"step": f"planning again: {result.reason}"})
    return {"before": before, "after": figures(client, table), "rewritten": done, "versions": versions}


def optimise(
    spark: WarmSession, shadow: Shadow, job: Job, progress: Progress, storage: Mapping[str, str] = MappingProxyType({})
) -> dict[str, Any]:
    """Run Delta's own OPTIMIZE or REORG on a shadow, and return its metrics.

    `storage`: settings with a key for the files, which the session of another job must not use.
    """
    session = own_session(spark.get()) if storage else spark.get()
    progress(spark_facts(session))
    for key, value in {**dict.fromkeys(_SIZES, str(shadow.target_bytes)), **storage}.items():
        session.conf.set(key, value)
    (row,) = run_statement(session, statement(shadow), tag=job.id, progress=progress)
    found = row["metrics"].asDict(recursive=True)
    return found if isinstance(found, dict) else {}


def statement(shadow: Shadow) -> str:
    """The statement that rewrites a shadow."""
    table = f"delta.{quoted(shadow.location)}"
    if shadow.mode is RewriteMode.PURGE:
        return f"REORG TABLE {table} APPLY (PURGE)"
    if shadow.mode is RewriteMode.Z_ORDER:
        return f"OPTIMIZE {table} ZORDER BY ({', '.join(map(quoted, shadow.columns))})"
    return f"OPTIMIZE {table} FULL" if shadow.mode is RewriteMode.CLUSTER and shadow.full else f"OPTIMIZE {table}"


def _optimise_external(
    job: Job, table: LocatedTable, client: Client, progress: Progress, spark: WarmSession
) -> dict[str, Any]:
    options = parse_options(job.args, CompactOptions)
    mode = RewriteMode.PURGE if options.purge else RewriteMode.Z_ORDER if options.zorder_by else RewriteMode.BIN_PACK
    whole = Shadow(
        folder="",
        location=(table.location or "").rstrip("/"),
        base_version=0,
        mode=mode,
        target_bytes=target_bytes(options),
        columns=options.zorder_by,
        files=0,
        bytes=0,
        remaining_files=0,
    )
    progress({"step": "optimising the table at its location"})
    before, done = figures(client, table), _nothing_yet()
    _add(done, _counts(optimise(spark, whole, job, progress)))
    return {"before": before, "after": figures(client, table), "rewritten": done}


def _nothing_yet() -> dict[str, int]:
    return asdict(Rewritten())


def _add(done: dict[str, int], more: Mapping[str, int]) -> None:
    for name in done:
        done[name] += more[name]


def _counts(metrics: dict[str, Any]) -> dict[str, int]:
    """The metrics of one OPTIMIZE as totals of the rewritten files."""
    found = {}
    for what in ("Removed", "Added"):
        found[f"files_{what.lower()}"] = metrics.get(f"numFiles{what}", 0)
        found[f"bytes_{what.lower()}"] = (metrics.get(f"files{what}") or {}).get("totalSize", 0)
    return found


def expire_delta(
    job: Job, table: LocatedTable, client: Client, progress: Progress, spark: WarmSession
) -> dict[str, Any]:
    """Make the versions past the retention unavailable. Another job deletes their files later."""
    _require_managed(table)
    found = client.rewrites.announce_expiry(table.id)
    return {
        "floor": found.floor,
        "files": found.files,
        "bytes": found.bytes,
        "vacuum_job": found.job,
        "held_by": list(found.held_by),
    }


def vacuum_delta(job: Job, table: LocatedTable, client: Client, progress: Progress) -> dict[str, Any]:
    """Delete the files of versions that an earlier job made unavailable."""
    _require_managed(table)
    found = client.rewrites.delete_expired(table.id)
    return {
        "floor": found.floor,
        "files_deleted": found.files,
        "bytes_deleted": found.bytes,
        "log_files_deleted": found.log_files,
    }


def checkpoint_delta(job: Job, table: LocatedTable, client: Client, progress: Progress) -> dict[str, Any]:
    """Let the server write a checkpoint, or the commits since the last one in one file."""
    _require_managed(table)
    options = parse_options(job.args, CheckpointOptions)
    found = client.rewrites.write_checkpoint(table.id)
    left = min(found.replayed_before, 1) if options.commits_only else 0
    return {
        "version": found.version,
        "checkpoint_files": found.files,
        "checkpoint_bytes": found.bytes,
        "before": {"commits_to_replay": found.replayed_before},
        "after": {"commits_to_replay": left},
    }


def statistics_delta(job: Job, table: LocatedTable, client: Client, progress: Progress) -> dict[str, Any]:
    """Let the server compute the statistics of files that have none, some at a time."""
    _require_managed(table)
    first, after, versions, unreadable = None, None, list[int](), 0
    while True:
        found = client.rewrites.add_statistics(table.id, after)
        if found.waiting is not None:
            raise Postponed(found.waiting.reason, found.waiting.until_ms)
        first = found.missing if first is None else first
        left, after, unreadable = found.missing - found.files, found.after, unreadable + found.unreadable
        versions += [] if found.version is None else [found.version]
        if after is None:
            break
        progress({"step": f"{left:,} files have no statistics yet", "fraction": 1 - left / max(first, left, 1)})
    return {
        "before": {"files_without_statistics": first},
        "after": {"files_without_statistics": left},
        "unreadable_files": unreadable,
        "versions": versions,
    }


def _require_managed(table: LocatedTable) -> None:
    if not table.managed:
        raise PermanentFailure("the catalog does not manage this table; its clients maintain its log")
