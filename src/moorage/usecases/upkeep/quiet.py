"""Whether a job must wait for the writers of its table, and for whom."""

from __future__ import annotations

from typing import Final

from moorage.core.jobs import Job
from moorage.core.quiet import wait_for_quiet
from moorage.core.rewrites import Waiting
from moorage.core.securables import MAIN, Securable
from moorage.usecases.catalog.write_access import last_write_access
from moorage.usecases.ports import Ports

_BESIDE_WRITERS: Final = "beside_writers"
"""The option of a job that does not wait."""
_LOOK_BACK: Final = 1000
"""Versions. A table without a change among so many is calm."""


async def must_wait(ports: Ports, table: Securable, job: Job) -> Waiting | None:
    """Until when a job waits, and for whom; None if it may begin."""
    if job.args.get(_BESIDE_WRITERS):
        return None
    versions = await ports.ledger.versions(table.id, MAIN, limit=_LOOK_BACK, descending=True)
    wait = wait_for_quiet(versions, await last_write_access(ports, table.id), ports.now_ms())
    if wait is None:
        return None
    who = "a client that asked for write access"
    if wait.seq is not None:
        found = await ports.ledger.entries(wait.seq - 1, limit=1)
        who = f"'{found[0].caller}'" if found else "a writer"
    reason = f"waiting for {who}: rows of the table are changed, and a rewrite would make such a write fail"
    return Waiting(until_ms=wait.until_ms, reason=reason)
