"""The programs of jobs about a table, by kind of job and format of the table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeVar

from moorage.client import Client, ClientError
from moorage.client.answers import Job, LocatedTable
from moorage.core.jobs import CHECKPOINT, COMPACT, EXPIRE, ORPHANS, STATISTICS, VACUUM
from moorage.pipeline.delta_upkeep import checkpoint_delta, compact_delta, expire_delta, statistics_delta, vacuum_delta
from moorage.pipeline.iceberg_upkeep import compact_iceberg, expire_iceberg, remove_orphans
from moorage.pipeline.lance_upkeep import compact_lance, expire_lance
from moorage.pipeline.program import PermanentFailure, Progress
from moorage.pipeline.warm_session import WarmSession

TableProgram = Callable[[Job, LocatedTable, Client, Progress, WarmSession], dict[str, Any]]
LightProgram = Callable[[Job, LocatedTable, Client, Progress], dict[str, Any]]

TABLE_PROGRAMS: Final[Mapping[tuple[str, str], TableProgram]] = {
    (COMPACT, "delta"): compact_delta,
    (EXPIRE, "delta"): expire_delta,
    (COMPACT, "iceberg"): compact_iceberg,
    (EXPIRE, "iceberg"): expire_iceberg,
    (ORPHANS, "iceberg"): remove_orphans,
    (COMPACT, "lance"): compact_lance,
    (EXPIRE, "lance"): expire_lance,
}
LIGHT_PROGRAMS: Final[Mapping[tuple[str, str], LightProgram]] = {
    (CHECKPOINT, "delta"): checkpoint_delta,
    (STATISTICS, "delta"): statistics_delta,
    (VACUUM, "delta"): vacuum_delta,
}
"""The programs that need no Spark. The lane of a job follows from its kind, so a kind is in one of the two tables."""


def run_table_program(job: Job, client: Client, progress: Progress, *, spark: WarmSession) -> dict[str, Any]:
    """Run the program for the format of a job's table."""
    table = _table(job, client)
    with _dropped_tables(job, client):
        return _program(TABLE_PROGRAMS, job, table)(job, table, client, progress, spark)


def run_light_program(job: Job, client: Client, progress: Progress) -> dict[str, Any]:
    """Run a program that needs no Spark."""
    table = _table(job, client)
    with _dropped_tables(job, client):
        return _program(LIGHT_PROGRAMS, job, table)(job, table, client, progress)


@contextmanager
def _dropped_tables(job: Job, client: Client) -> Iterator[None]:
    """End a job whose table was dropped under it. Each API and engine has another error for that."""
    try:
        yield
    except Exception:
        # If the lease is lost too, the server refuses the question.
        with suppress(ClientError):
            _table(job, client)
        raise


def _table(job: Job, client: Client) -> LocatedTable:
    """The table of a job. It may have been renamed since the job was created."""
    try:
        return client.namespaces.table_by_id(job.subject or "")
    except ClientError as error:
        if error.code == "TABLE_NOT_FOUND":
            raise PermanentFailure("the table was dropped") from error
        raise


P = TypeVar("P")


def _program(programs: Mapping[tuple[str, str], P], job: Job, table: LocatedTable) -> P:
    program = programs.get((job.kind, table.format or ""))
    if program is None:
        raise PermanentFailure(f"this worker has no program to {job.kind} {table.format} tables")
    return program
