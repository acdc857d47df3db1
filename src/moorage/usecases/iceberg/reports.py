"""Reports of Iceberg clients on their commits and scans."""

from __future__ import annotations

import msgspec

from moorage.core.callers import Caller
from moorage.core.errors import InvalidInput, TableNotFound
from moorage.core.privileges import Privilege
from moorage.core.reports import ReportKind
from moorage.core.securables import MAIN
from moorage.formats.iceberg.documents import Document
from moorage.usecases.catalog.addresses import Address
from moorage.usecases.catalog.staging import find_staged_name
from moorage.usecases.iceberg.lookup import SNAPSHOT, find_relation, require_head
from moorage.usecases.ports import Ports

KINDS = {"commit-report": ReportKind.COMMIT, "scan-report": ReportKind.SCAN}

_MAX_REPORT_BYTES = 64 * 1024
_MAX_VERSIONS_BACK = 100
"""A client reports right after its commit. A report on an older version has no use for maintenance."""

_encode = msgspec.json.Encoder().encode


async def store_report(
    ports: Ports, caller: Caller, address: Address, kind: str, snapshot: int, report: Document
) -> None:
    """Store a client's report on a commit or a scan, for the maintenance of the table.

    Spark reports on a table that it still stages. There is no version yet to store such a report with, so it is
    accepted and not stored.
    """
    try:
        table = (await find_relation(ports, caller, address, Privilege.READ))[-1]
    except TableNotFound:
        if await find_staged_name(ports, caller, address) is None:
            raise
        table = None
    if kind not in KINDS:
        raise InvalidInput(f"report-type must be {' or '.join(KINDS)}, not {kind!r}", field="report-type")
    if table is None:
        return
    body = _encode(report)
    if len(body) > _MAX_REPORT_BYTES:
        return
    last = require_head(table).version
    versions = await ports.ledger.versions(table.id, MAIN, first=max(0, last - _MAX_VERSIONS_BACK), last=last)
    # The oldest version with this snapshot is the commit that made it current.
    found = next((each for each in versions if each.details.get(SNAPSHOT) == snapshot), None)
    if found is not None:
        await ports.ledger.store_report(table.id, found.version, body, kind=KINDS[kind])
