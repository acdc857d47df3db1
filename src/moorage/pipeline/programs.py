"""The programs of a worker: one function per kind of job."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import partial
from typing import Any

import msgspec

from moorage.client import Client
from moorage.client.answers import FeedEntry, Job
from moorage.core.jobs import AUDIT
from moorage.pipeline.program import PermanentFailure, Program, Progress
from moorage.pipeline.table_programs import LIGHT_PROGRAMS, TABLE_PROGRAMS, run_light_program, run_table_program
from moorage.pipeline.warm_session import WarmSession

_canonical = msgspec.json.Encoder(order="sorted").encode


def audit(job: Job, client: Client, progress: Progress) -> dict[str, Any]:
    """Read the whole feed and verify that no entry is missing, out of order or duplicated."""
    last = client.health().seq
    whole = hashlib.sha256()
    drafts: set[str] = set()
    before: FeedEntry | None = None
    for entry in client.feed.read(up_to=last):
        _require_next(before, entry)
        if entry.draft in drafts:
            raise PermanentFailure(f"entry {entry.seq} has the same draft as an earlier entry: {entry.draft}")
        drafts.add(entry.draft)
        whole.update(_canonical(entry) + b"\n")
        before = entry
        if entry.seq % 1000 == 0:
            progress({"entries": entry.seq})
    if len(drafts) != last:
        raise PermanentFailure(f"the feed ends at entry {len(drafts)}, but the ledger ends at entry {last}")
    return {"entries": last, "sha256": whole.hexdigest()}


def _require_next(before: FeedEntry | None, entry: FeedEntry) -> None:
    expected = 1 if before is None else before.seq + 1
    if entry.seq != expected:
        raise PermanentFailure(f"the feed has entry {entry.seq} where entry {expected} is expected")
    if before is not None and entry.at_ms < before.at_ms:
        raise PermanentFailure(f"entry {entry.seq} has an earlier time than the entry before it")


PROGRAMS: Mapping[str, Program] = {AUDIT: audit, **{kind: run_light_program for kind, _ in LIGHT_PROGRAMS}}
"""The programs that need no Spark."""


def spark_programs(spark: WarmSession) -> Mapping[str, Program]:
    """The programs that need Spark, by kind of job. Each gets the session when it runs, not before."""
    return {kind: partial(run_table_program, spark=spark) for kind, _ in TABLE_PROGRAMS}
