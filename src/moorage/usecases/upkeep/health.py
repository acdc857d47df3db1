"""How the server is doing."""

from __future__ import annotations

import msgspec

from moorage.access.port import require
from moorage.core.callers import Caller
from moorage.core.entries import JobState
from moorage.core.privileges import Privilege
from moorage.ledger.port import Position
from moorage.usecases.ports import Ports

_ENOUGH = 1000


class Health(msgspec.Struct, frozen=True):
    position: Position
    open_jobs: int
    """Counted up to a thousand: beyond that the number is no news."""


async def look(ports: Ports, caller: Caller) -> Health:
    require(ports.access, caller, Privilege.BROWSE, ())
    queued = await ports.ledger.jobs(state=JobState.QUEUED, limit=_ENOUGH)
    running = await ports.ledger.jobs(state=JobState.RUNNING, limit=_ENOUGH)
    return Health(await ports.ledger.position(), len(queued) + len(running))
