"""Reports on commits: kept once per table and version, for whoever looks after the table."""

from __future__ import annotations

import msgspec

from moorage.core.callers import Caller
from moorage.core.privileges import Privilege
from moorage.formats.delta.metrics import CommitReport, require_report
from moorage.usecases.delta_found import find_managed, head_of
from moorage.usecases.ports import Ports

_encode = msgspec.json.Encoder().encode


async def report(
    ports: Ports, caller: Caller, table_id: str | None, table_uri: str | None, report: CommitReport | None
) -> None:
    """Keep what a client says of its commit. The first report on a version counts, as its commit did."""
    table = await find_managed(ports, caller, table_id, table_uri, Privilege.READ)
    if report is None:
        return
    version = require_report(report, latest=head_of(table).version)
    await ports.ledger.keep_report(table.id, version, _encode(report))
