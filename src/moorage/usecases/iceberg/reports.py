"""Reports of Iceberg's clients on what they committed and scanned."""

from __future__ import annotations

import msgspec

from moorage.core.callers import Caller
from moorage.core.errors import InvalidInput
from moorage.core.privileges import Privilege
from moorage.core.reports import ReportKind
from moorage.core.securables import MAIN
from moorage.formats.iceberg.documents import Document
from moorage.usecases.catalog.addresses import Address
from moorage.usecases.iceberg.lookup import find_relation, head_of
from moorage.usecases.ports import Ports

KINDS = {"commit-report": ReportKind.COMMIT, "scan-report": ReportKind.SCAN}

_LARGEST = 64 * 1024
_LOOKED_BACK = 100
"""Reports come right after their commit; one on an older version steers nothing any more."""

_encode = msgspec.json.Encoder().encode


async def report(ports: Ports, caller: Caller, address: Address, kind: str, snapshot: int, said: Document) -> None:
    """Keep what a client says of its commit or its scan, for whoever looks after the table."""
    table = (await find_relation(ports, caller, address, Privilege.READ))[-1]
    if kind not in KINDS:
        raise InvalidInput(f"report-type is {' or '.join(KINDS)}, not {kind!r}", field="report-type")
    body = _encode(said)
    if len(body) > _LARGEST:
        return
    last = head_of(table).version
    versions = await ports.ledger.versions(table.id, MAIN, first=max(0, last - _LOOKED_BACK), last=last)
    # The oldest version with this snapshot is the commit that made it current.
    found = next((each for each in versions if each.details.get("snapshot_id") == snapshot), None)
    if found is not None:
        await ports.ledger.store_report(table.id, found.version, body, kind=KINDS[kind])
