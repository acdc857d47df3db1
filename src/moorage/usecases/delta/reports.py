"""Commit reports of Delta clients."""

from __future__ import annotations

import msgspec

from moorage.core.callers import Caller
from moorage.core.privileges import Privilege
from moorage.formats.delta.metrics import CommitReport, require_report
from moorage.usecases.delta.lookup import find_managed, require_head
from moorage.usecases.ports import Ports

_encode = msgspec.json.Encoder().encode


async def store_report(
    ports: Ports, caller: Caller, table_id: str | None, table_uri: str | None, report: CommitReport | None
) -> None:
    """Store a client's report on its commit. Only the first report on a version is stored."""
    table = await find_managed(ports, caller, table_id, table_uri, Privilege.READ)
    if report is None:
        return
    version = require_report(report, latest=require_head(table).version)
    await ports.ledger.store_report(table.id, version, _encode(report))
