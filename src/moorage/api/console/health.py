"""The state of the server, for people and for `moorage status`."""

from __future__ import annotations

import time
from typing import Literal

import msgspec

import moorage
from moorage.api.console.api import console
from moorage.api.console.bodies import Whole
from moorage.http import Answer, Call, Example, NoBody, NoQuery
from moorage.usecases.ports import Ports
from moorage.usecases.upkeep import health as server_health

_STARTED = time.monotonic()


class ServerHealth(msgspec.Struct, frozen=True, kw_only=True):
    """The version of the server, and the position of its ledger."""

    version: str
    ledger: Literal["sqlite", "postgresql"]
    metastore_id: str
    seq: Whole
    at_ms: Whole
    open_jobs: Whole
    uptime_seconds: float


@console.get(
    "/health",
    operation="getHealth",
    summary="Get the state of the server.",
    tags=("health",),
    answer=ServerHealth,
    example=Example(
        answer={
            "version": "0.1.0",
            "ledger": "sqlite",
            "metastore_id": "01939c1e-5a6f-7cc1-9d3e-8f5a2b7c4d00",
            "seq": 42,
            "at_ms": 1794737732278,
            "open_jobs": 0,
            "uptime_seconds": 12.5,
        }
    ),
)
async def get_health(call: Call[NoBody, NoQuery], ports: Ports) -> Answer:
    """Get the version, the kind of ledger, its last entry and the number of open jobs."""
    health = await server_health.get_health(ports, call.caller)
    return Answer.json(
        ServerHealth(
            version=moorage.__version__,
            ledger=ports.ledger.kind,
            metastore_id=ports.ledger.root,
            seq=health.position.seq,
            at_ms=health.position.at_ms,
            open_jobs=health.open_jobs,
            uptime_seconds=round(time.monotonic() - _STARTED, 3),
        )
    )
