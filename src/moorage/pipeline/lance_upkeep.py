"""Upkeep of Lance tables. Spark tasks rewrite the fragments with pylance; the driver plans and commits.

The commit goes through the catalog with the fence of the job, like the commit of any client. pylance rebases it over
rows that were appended meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from moorage.client import Client
from moorage.client.answers import Job, LocatedTable
from moorage.core.job_options import CompactOptions, ExpireOptions, parse_options
from moorage.pipeline.program import Progress
from moorage.pipeline.spark_facts import spark_facts
from moorage.pipeline.stream_marks import marked_versions
from moorage.pipeline.warm_session import WarmSession

if TYPE_CHECKING:
    import pyarrow as pa
    from lance import LanceDataset
    from pyspark.sql import SparkSession

_RETENTION_DAYS: Final = 14
_TASKS_PER_CORE: Final = 2
_MAX_RANGES: Final = 1_000
_MAX_COMMITS: Final = 10
_CONFLICTS: Final = ("Commit conflict", "Too many concurrent writers")
"""How pylance reports that other writers were faster. There is no error class of its own for it."""


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """Where a task finds the table: pickled with the task, and opened in each executor."""

    uri: str
    headers: dict[str, str]
    id: tuple[str, ...]

    def open(self, version: int | None = None) -> LanceDataset:
        import lance

        from moorage.client.lance import Lake

        lake = Lake(self.uri, headers=self.headers)
        return lance.dataset(namespace_client=lake, table_id=list(self.id), version=version)


def source_of(client: Client, table: LocatedTable) -> Source:
    return Source(uri=client.url, headers=client.headers, id=table.path)


def compact_lance(
    job: Job, table: LocatedTable, client: Client, progress: Progress, spark: WarmSession
) -> dict[str, Any]:
    """Merge small fragments, remove deleted rows, and extend the indexes to all rows."""
    from lance.optimize import Compaction

    source = source_of(client, table)
    dataset = source.open()
    before = figures(dataset)
    progress({"step": "planning"})
    options = _options(parse_options(job.args, CompactOptions))
    plan: Any = Compaction.plan(dataset, options)  # pylance's stubs lack the JSON methods
    tasks = [task.json() for task in plan.tasks]
    if tasks:
        results = _execute(spark.get(), source, plan.read_version, tasks, progress)
        progress({"step": "committing", "fraction": 0.9})
        _commit(source, results, options, progress)
    dataset = source.open()
    if dataset.describe_indices():
        progress({"step": "extending indexes", "fraction": 0.95})
        dataset.optimize.optimize_indices()
        dataset = source.open()
    return {"before": before, "after": figures(dataset), "tasks": len(tasks), "version": dataset.version}


def _commit(source: Source, results: list[Any], options: Any, progress: Progress) -> None:
    """Commit what the tasks wrote. Writers that commit all the time may be faster, so it is tried several times.

    pylance rebases a commit by itself, for at most 30 seconds and 20 times.
    """
    from lance.optimize import Compaction

    for attempt in range(1, _MAX_COMMITS + 1):
        try:
            Compaction.commit(source.open(), results, options)
        except OSError as error:
            if attempt == _MAX_COMMITS or not any(words in str(error) for words in _CONFLICTS):
                raise
            progress({"step": f"committing, after {attempt} conflicts with other writers"})
        else:
            return


def _options(asked: CompactOptions) -> Any:
    """The options of pylance. Any deleted row makes a fragment worth a rewrite if the job asks to purge."""
    options: dict[str, Any] = {}
    if asked.target_file_size_mb is not None:
        options["max_bytes_per_file"] = asked.target_file_size_mb * 1024 * 1024
    if asked.purge:
        options |= {"materialize_deletions": True, "materialize_deletions_threshold": 0.0}
    return options


def _execute(
    session: SparkSession, source: Source, version: int, tasks: Sequence[str], progress: Progress
) -> list[Any]:
    """Run the tasks on Spark, some at a time, so that progress is shown and a lost lease is noticed between them."""
    from lance.optimize import RewriteResult

    decode: Any = RewriteResult
    width = max(_parallelism(session) * _TASKS_PER_CORE, 1)
    results: list[Any] = []
    for start in range(0, len(tasks), width):
        step = f"rewriting fragments, {len(results)} of {len(tasks)} groups are done"
        progress({"step": step, "fraction": 0.9 * len(results) / len(tasks), **spark_facts(session)})
        wave = tasks[start : start + width]
        frame = session.createDataFrame([(task,) for task in wave], "task string").repartition(len(wave))
        rows = frame.mapInArrow(_Rewrite(source, version), "result string").collect()
        results += [decode.from_json(row["result"]) for row in rows]
    return results


def _parallelism(session: SparkSession) -> int:
    found = session.conf.get("spark.default.parallelism", "2")
    return int(found) if found and found.isdigit() else 2


class _Rewrite:
    """The function of a Spark task: rewrites groups of fragments. Nothing is committed here."""

    def __init__(self, source: Source, version: int) -> None:
        self._source, self._version = source, version

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        from lance.optimize import CompactionTask

        decode: Any = CompactionTask
        dataset = None
        for batch in batches:
            results = []
            for task in batch.column(0).to_pylist():
                dataset = dataset or self._source.open(self._version)
                results.append(decode.from_json(task).execute(dataset).json())
            yield pa.RecordBatch.from_pydict({"result": pa.array(results, pa.string())})


def figures(dataset: LanceDataset) -> dict[str, int]:
    """Files, bytes and rows of a version, from its manifest."""
    found: list[Any] = [fragment.metadata for fragment in dataset.get_fragments()]
    return {
        "files": len(found),
        "bytes": sum(file.file_size_bytes or 0 for each in found for file in each.files),
        "rows": sum(each.num_rows for each in found),
        "deleted_rows": sum(each.num_deletions or 0 for each in found),
    }


# --- expiry -------------------------------------------------------------------------------------


def expire_lance(
    job: Job, table: LocatedTable, client: Client, progress: Progress, spark: WarmSession
) -> dict[str, Any]:
    """Remove old versions: first their records in the catalog, then the files that only they need.

    The newest version, tagged versions, those that branches begin with, and marks of streams are kept.
    """
    from lance_namespace import BatchDeleteTableVersionsRequest
    from lance_namespace_urllib3_client.models import VersionRange

    from moorage.client.lance import Lake

    asked = parse_options(job.args, ExpireOptions)
    age = timedelta(days=_RETENTION_DAYS if asked.older_than_days is None else asked.older_than_days)
    source = source_of(client, table)
    lake = Lake(source.uri, headers=source.headers)
    progress({"step": "looking for old versions"})
    found = _expired(lake, source, before=datetime.now(UTC) - age, keep_last=asked.keep_last or 1)
    if asked.dry_run:
        return {"versions": len(found.versions), "old_versions": 0, "bytes_removed": 0}
    progress({"step": f"removing the records of {len(found.versions)} versions", "fraction": 0.2})
    spans = _spans(found.versions)
    for start in range(0, len(spans), _MAX_RANGES):
        ranges = [
            VersionRange(start_version=first, end_version=last + 1)
            for first, last in spans[start : start + _MAX_RANGES]
        ]
        lake.batch_delete_table_versions(BatchDeleteTableVersionsRequest(id=list(source.id), ranges=ranges))
    progress({"step": "deleting files", "fraction": 0.5})
    removed = source.open().cleanup_old_versions(
        age, found.kept, error_if_tagged_old_versions=False, versions=found.removable
    )
    return {
        "before": {"stored_versions": found.total},
        "after": {"stored_versions": found.total - len(found.versions)},
        "versions": len(found.versions),
        "old_versions": removed.old_versions,
        "bytes_removed": removed.bytes_removed,
    }


class _Expired(NamedTuple):
    total: int
    """The number of versions of the main line."""
    versions: list[int]
    """The versions of the main line whose records may be removed, ascending."""
    kept: int
    """How many of the newest versions are kept."""
    removable: list[int]
    """The numbers of versions whose files may be removed. Without them, each version that is committed meanwhile would
    take the place of a kept one. An earlier attempt may have removed the records of some of them."""


def _expired(lake: Any, source: Source, *, before: datetime, keep_last: int) -> _Expired:
    """What may be removed.

    The version stays that was current at `before`. It may be old, but queries that began with it a minute ago, before a
    compaction, still need its files.
    """
    from moorage.client.lance.marks import PREFIX
    from moorage.client.lance.versions import newest_first

    found, dataset = list(newest_first(lake, source.id)), source.open()
    named = {each["version"] for each in dataset.tags.list().values() if each.get("branch") is None}
    named |= {each["parent_version"] for each in dataset.branches.list().values() if each.get("parent_branch") is None}
    named |= marked_versions(
        ((each.version, each.timestamp_millis or 0, each.metadata or {}) for each in found), PREFIX
    )
    limit_ms = before.timestamp() * 1000
    since = sum((each.timestamp_millis or 0) >= limit_ms for each in found)
    kept = max(keep_last, since + 1)
    old = {each.version for each in found[kept:] if (each.timestamp_millis or 0) < limit_ms}
    first_kept = found[:kept][-1].version if found else 0
    removable = sorted({0, *range(first_kept)} - named)  # 0 is no version; an empty list would be refused
    return _Expired(len(found), sorted(old - named), kept, removable)


def _spans(versions: Sequence[int]) -> list[tuple[int, int]]:
    """Ascending versions as spans without gaps, both ends included."""
    spans: list[tuple[int, int]] = []
    for version in versions:
        if spans and spans[-1][1] == version - 1:
            spans[-1] = (spans[-1][0], version)
        else:
            spans.append((version, version))
    return spans
