"""Upkeep of Iceberg tables with Iceberg's own procedures, on Spark, through the catalog's REST API like any client.

Every commit carries the fence of the job in the header `Moorage-Job`, so a worker that lost the job changes nothing.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from moorage.client import Client
from moorage.client.answers import Job, LocatedTable
from moorage.core.health import TARGET_FILE_BYTES
from moorage.core.job_options import CompactOptions, ExpireOptions, OrphanOptions, parse_options
from moorage.pipeline.figures import figures
from moorage.pipeline.program import PermanentFailure, Progress
from moorage.pipeline.spark_facts import spark_facts
from moorage.pipeline.statements import own_session, quoted, run_statement
from moorage.pipeline.stream_marks import (
    INGEST_MARK,
    STREAM_MARK,
    Snapshot,
    oldest_of,
    snapshots_for_streams,
    snapshots_since,
)
from moorage.pipeline.warm_session import WarmSession

if TYPE_CHECKING:
    from pyspark.sql import Row

_CATALOG: Final = "moorage_job"
_DELEGATION: Final = "vended-credentials,remote-signing"
_TARGET_SIZE: Final = "write.target-file-size-bytes"
_KEEP_LAST: Final = "history.expire.min-snapshots-to-keep"
_MAX_AGE: Final = "history.expire.max-snapshot-age-ms"
_DAY_MS: Final = 24 * 60 * 60 * 1000
_DEFAULT_AGE_MS: Final = 5 * _DAY_MS
_MAX_NAMED: Final = 100
_CONFLICTS: Final = ("ValidationException", "CommitFailedException")
_DELETES: Final = {"delete-ratio-threshold": "0.05", "delete-file-threshold": "5", "remove-dangling-deletes": "true"}
"""Rewrite data files with many deleted rows, so that a compacted table has no finding about them. Only for tables with
deletes: the search for dangling ones takes as long as the rewrite of a few hundred files."""


class AttachedTable:
    """The table of a job in a Spark session of its own: another job has another fence, and so another catalog."""

    def __init__(self, job: Job, table: LocatedTable, client: Client, progress: Progress, spark: WarmSession) -> None:
        self._tag, self._progress = job.id, progress
        self._session = own_session(spark.get())
        for key, value in catalog_settings(client, table.path[0]).items():
            self._session.conf.set(f"spark.sql.catalog.{_CATALOG}{key}", value)
        self._name = ".".join(map(quoted, table.path[1:]))
        progress(spark_facts(self._session))

    def call(self, procedure: str, **given: str) -> list[Row]:
        """Call a procedure. The arguments are SQL expressions."""
        args = ", ".join(f"{name} => {value}" for name, value in {"table": literal(self._name), **given}.items())
        return self._run(f"CALL {_CATALOG}.system.{procedure}({args})")

    def rows_of(self, metadata_table: str, columns: str) -> list[Row]:
        return self._run(f"SELECT {columns} FROM {_CATALOG}.{self._name}.{metadata_table}")  # noqa: S608 - quoted

    def properties(self) -> dict[str, str]:
        rows = self._run(f"SHOW TBLPROPERTIES {_CATALOG}.{self._name}")
        return {row["key"]: row["value"] for row in rows}

    def _run(self, sql: str) -> list[Row]:
        return run_statement(self._session, sql, tag=self._tag, progress=self._progress)

    def snapshots_in_use(self, before_ms: float) -> tuple[int, float]:
        """How many snapshots, counted from the newest one, must stay for readers and for streams; the oldest's time.

        Iceberg counts the age of a snapshot from its commit. One that was current until a compaction a minute ago may
        be old, and queries and URLs that began with it still need its files. Of the others that stay, none is older
        than `before_ms`.
        """
        mark = f"coalesce(summary['{STREAM_MARK}'], summary['{INGEST_MARK}'])"
        rows = self.rows_of("snapshots", f"snapshot_id, parent_id, unix_millis(committed_at) AS at_ms, {mark} AS query")
        current = self.rows_of("refs WHERE name = 'main'", "snapshot_id")
        snapshots = {row["snapshot_id"]: Snapshot(row["parent_id"], row["at_ms"], row["query"]) for row in rows}
        newest = current[0]["snapshot_id"] if current else None
        count = max(snapshots_since(snapshots, newest, before_ms), snapshots_for_streams(snapshots, newest))
        return count, oldest_of(snapshots, newest, count, before_ms)

    def figures(self) -> dict[str, int]:
        """Files, bytes and rows of the current snapshot, and the number of manifests and snapshots."""
        found = {"files": 0, "bytes": 0, "rows": 0, "delete_files": 0}
        for row in self.rows_of("files", "content, file_size_in_bytes AS bytes, record_count AS rows"):
            if row["content"] == 0:
                found["files"] += 1
                found["bytes"] += row["bytes"]
                found["rows"] += row["rows"]
            else:
                found["delete_files"] += 1
        for name in ("manifests", "snapshots"):
            found[name] = self.rows_of(name, "count(*) AS n")[0]["n"]
        return found


def catalog_settings(client: Client, warehouse: str) -> dict[str, str]:
    """The settings of the catalog in Spark. The headers carry the token and the fence of the job."""
    headers = {**client.headers, "X-Iceberg-Access-Delegation": _DELEGATION}
    return {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".type": "rest",
        ".uri": f"{client.url}/iceberg",
        ".warehouse": warehouse,
        ".cache-enabled": "false",
        **{f".header.{name}": value for name, value in headers.items()},
    }


# --- the programs -------------------------------------------------------------------------------


def compact_iceberg(
    job: Job, table: LocatedTable, client: Client, progress: Progress, spark: WarmSession
) -> dict[str, Any]:
    """Rewrite data files, delete files and manifests. Snapshots of branches and tags are not touched."""
    options = parse_options(job.args, CompactOptions)
    progress({"step": "starting", "fraction": 0.0})
    attached = AttachedTable(job, table, client, progress, spark)
    properties = attached.properties()
    before = figures(client, table)
    progress({"step": f"rewriting data files ({before['files']:,} before)", "fraction": 0.1})
    has_deletes = before["delete_files"] > 0
    given = rewrite_arguments(options, properties, has_deletes=has_deletes)
    rewritten = attached.call("rewrite_data_files", **given)[0].asDict()
    if has_deletes and properties.get("format-version") == "2":
        progress({"step": "rewriting position delete files", "fraction": 0.7})
        attached.call("rewrite_position_delete_files")
    progress({"step": "rewriting manifests", "fraction": 0.8})
    skipped = _rewrite_manifests(attached)
    result = {"before": before, "after": figures(client, table), "rewritten": _counts(rewritten)}
    return result if skipped is None else {**result, "skipped": skipped}


def _rewrite_manifests(attached: AttachedTable) -> str | None:
    """Merge manifests. Returns why they were left alone: a writer that merges them itself may be faster every time.

    The data files are rewritten already, so this is no reason to fail the job.
    """
    try:
        attached.call("rewrite_manifests", use_caching="false")
    except Exception as error:
        if not any(name in str(error) for name in _CONFLICTS):
            raise
        return "rewrite_manifests, because another writer replaced manifests meanwhile"
    return None


def expire_iceberg(
    job: Job, table: LocatedTable, client: Client, progress: Progress, spark: WarmSession
) -> dict[str, Any]:
    """Remove old snapshots, and the files that only they need. Without options, the table's properties decide."""
    options = parse_options(job.args, ExpireOptions)
    progress({"step": "starting", "fraction": 0.0})
    attached = AttachedTable(job, table, client, progress, spark)
    properties = attached.properties()
    _require_owned_files(properties)
    before = attached.figures()
    stated = properties.get(_KEEP_LAST, "")
    keep_last = options.keep_last or (int(stated) if stated.isdigit() else 1)
    in_use, oldest_ms = attached.snapshots_in_use(max(0, int(time.time() * 1000) - _age_ms(options, properties)))
    # Both: snapshots that are committed meanwhile take the places of the last ones, and a branch may state an age.
    given = {"older_than": timestamp(oldest_ms)}
    if options.keep_last is not None or in_use > keep_last:
        given["retain_last"] = str(max(keep_last, in_use))
    progress({"step": "removing snapshots and their files", "fraction": 0.2})
    deleted = attached.call("expire_snapshots", **given)[0].asDict()
    return {"before": before, "after": attached.figures(), "deleted": _counts(deleted)}


def _age_ms(options: ExpireOptions, properties: dict[str, str]) -> float:
    """How old a snapshot must be to expire."""
    if options.older_than_days is not None:
        return options.older_than_days * _DAY_MS
    stated = properties.get(_MAX_AGE, "")
    return int(stated) if stated.isdigit() else _DEFAULT_AGE_MS


def remove_orphans(
    job: Job, table: LocatedTable, client: Client, progress: Progress, spark: WarmSession
) -> dict[str, Any]:
    """Delete files in the folder of the table that no snapshot needs and that are old enough."""
    options = parse_options(job.args, OrphanOptions)
    progress({"step": "starting", "fraction": 0.0})
    attached = AttachedTable(job, table, client, progress, spark)
    _require_owned_files(attached.properties())
    progress({"step": "comparing the folder with the snapshots", "fraction": 0.2})
    found = attached.call(
        "remove_orphan_files",
        older_than=timestamp(time.time() * 1000 - options.older_than_days * _DAY_MS),
        dry_run=str(options.dry_run).lower(),
        prefix_listing="true",
        **listed_location(table.location or ""),
    )
    files = [row["orphan_file_location"] for row in found]
    return {"orphans": len(files), "deleted": 0 if options.dry_run else len(files), "files": files[:_MAX_NAMED]}


def listed_location(location: str) -> dict[str, str]:
    """The location of a table on local disk as listings of it spell it, as an argument.

    Iceberg recognises hidden files only below the location in its own spelling, and would delete them otherwise. The
    state of ingests is hidden in the folder of the table.
    """
    if not location.startswith("file:"):
        return {}
    return {"location": literal(f"file:/{location.removeprefix('file:').strip('/')}")}


def _require_owned_files(properties: dict[str, str]) -> None:
    if properties.get("gc.enabled", "true").lower() == "false":
        raise PermanentFailure("gc.enabled is false: other tables may need the files of this table")


def rewrite_arguments(options: CompactOptions, properties: dict[str, str], *, has_deletes: bool) -> dict[str, str]:
    """The arguments of `rewrite_data_files`, as SQL."""
    stated = properties.get(_TARGET_SIZE, "")
    target = int(stated) if stated.isdigit() else TARGET_FILE_BYTES
    if options.target_file_size_mb is not None:
        target = options.target_file_size_mb * 1024 * 1024
    settings = {
        "target-file-size-bytes": str(target),
        "min-input-files": "2",
        **(_DELETES if has_deletes else {}),
        **({"delete-file-threshold": "1"} if options.purge else {}),
        **({"rewrite-all": "true"} if options.full else {}),
    }
    pairs = ", ".join(f"{literal(name)}, {literal(value)}" for name, value in settings.items())
    given = {"options": f"map({pairs})"}
    if options.zorder_by:
        order = f"zorder({', '.join(map(quoted, options.zorder_by))})"
        given |= {"strategy": "'sort'", "sort_order": literal(order)}
    elif options.sort_by:
        given |= {"strategy": "'sort'", "sort_order": literal(", ".join(map(quoted, options.sort_by)))}
    if options.where is not None:
        given["where"] = literal(options.where)
    return given


def timestamp(at_ms: float) -> str:
    """A moment in SQL. The session's time zone is UTC."""
    moment = datetime.fromtimestamp(at_ms / 1000, UTC)
    return f"TIMESTAMP '{moment.strftime('%Y-%m-%d %H:%M:%S.%f')}'"


def literal(text: str) -> str:
    """A text in SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _counts(row: dict[str, Any]) -> dict[str, int]:
    return {name: value for name, value in row.items() if isinstance(value, int)}
