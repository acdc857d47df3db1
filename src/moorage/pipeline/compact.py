"""The program `compact`: rewrites the small files of a table. Each format has its own way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from moorage.client import Client, ClientError
from moorage.client.answers import Job
from moorage.client.tables import NamedTable
from moorage.pipeline.compact_delta import compact_delta
from moorage.pipeline.program import PermanentFailure, Progress
from moorage.pipeline.warm_session import WarmSession

Compactor = Callable[[Job, NamedTable, Client, Progress, WarmSession], dict[str, Any]]

COMPACTORS: Mapping[str, Compactor] = {"delta": compact_delta}
"""By the format of the table."""


def compact(job: Job, client: Client, progress: Progress, *, spark: WarmSession) -> dict[str, Any]:
    """Compact the table of a job."""
    table = _table_of(job, client)
    compactor = COMPACTORS.get(table.format or "")
    if compactor is None:
        raise PermanentFailure(f"this worker cannot compact {table.format} tables")
    return compactor(job, table, client, progress, spark)


def _table_of(job: Job, client: Client) -> NamedTable:
    try:
        return client.tables.get(job.subject or "")
    except ClientError as error:
        if error.code == "TABLE_NOT_FOUND":  # dropped since; an undropped table gets a new job
            raise PermanentFailure(str(error)) from None
        raise
