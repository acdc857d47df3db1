"""The programs of jobs about a table, by kind of job and format of the table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from moorage.client import Client, ClientError
from moorage.client.answers import Job, LocatedTable
from moorage.core.jobs import COMPACT, EXPIRE, ORPHANS, VACUUM
from moorage.pipeline.delta_upkeep import compact_delta, expire_delta, vacuum_delta
from moorage.pipeline.iceberg_upkeep import compact_iceberg, expire_iceberg, remove_orphans
from moorage.pipeline.lance_upkeep import compact_lance, expire_lance
from moorage.pipeline.program import PermanentFailure, Progress
from moorage.pipeline.warm_session import WarmSession

TableProgram = Callable[[Job, LocatedTable, Client, Progress, WarmSession], dict[str, Any]]

TABLE_PROGRAMS: Final[Mapping[tuple[str, str], TableProgram]] = {
    (COMPACT, "delta"): compact_delta,
    (EXPIRE, "delta"): expire_delta,
    (VACUUM, "delta"): vacuum_delta,
    (COMPACT, "iceberg"): compact_iceberg,
    (EXPIRE, "iceberg"): expire_iceberg,
    (ORPHANS, "iceberg"): remove_orphans,
    (COMPACT, "lance"): compact_lance,
    (EXPIRE, "lance"): expire_lance,
}


def run_table_program(job: Job, client: Client, progress: Progress, *, spark: WarmSession) -> dict[str, Any]:
    """Run the program for the format of a job's table. The table may have been renamed since the job was created."""
    try:
        table = client.namespaces.table_by_id(job.subject or "")
    except ClientError as error:
        if error.code == "TABLE_NOT_FOUND":
            raise PermanentFailure("the table was dropped") from error
        raise
    program = TABLE_PROGRAMS.get((job.kind, table.format or ""))
    if program is None:
        raise PermanentFailure(f"this worker has no program to {job.kind} {table.format} tables")
    return program(job, table, client, progress, spark)
