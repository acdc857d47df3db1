"""The state of the server."""

from __future__ import annotations

import msgspec

from moorage.access.port import require
from moorage.core.callers import Caller
from moorage.core.entries import JobState
from moorage.core.privileges import Privilege
from moorage.ledger.port import Position
from moorage.usecases.ports import Ports

_MAX_COUNTED = 1000


class Health(msgspec.Struct, frozen=True):
    position: Position
    open_jobs: int
    """Queued and running jobs, each counted up to a thousand. An operator needs no larger number."""


async def get_health(ports: Ports, caller: Caller) -> Health:
    require(ports.access, caller, Privilege.BROWSE, ())
    queued = await ports.ledger.jobs(state=JobState.QUEUED, limit=_MAX_COUNTED)
    running = await ports.ledger.jobs(state=JobState.RUNNING, limit=_MAX_COUNTED)
    return Health(await ports.ledger.position(), len(queued) + len(running))
