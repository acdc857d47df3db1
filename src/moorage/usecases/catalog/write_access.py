"""When a client was last told how to write the files of a table. Upkeep on every server waits for such a client."""

from __future__ import annotations

from typing import Final

from moorage.core.ids import SecurableId
from moorage.core.reports import ReportKind
from moorage.usecases.local_state import CacheKind
from moorage.usecases.ports import Ports

NOTED_MS: Final = 5_000
"""One server writes a note for a table at most once in this time, so the last access may be so much later."""
_NOTED: Final = CacheKind[SecurableId, int]("notes of write access to tables", limit=65_536)


async def record_write_access(ports: Ports, table: SecurableId) -> None:
    """Note the access in the ledger before the client receives it."""
    now_ms, noted = ports.now_ms(), ports.local.cache(_NOTED)
    last_ms = noted.get(table)
    if last_ms is not None and now_ms - last_ms < NOTED_MS:
        return
    await ports.ledger.store_report(table, 0, b"{}", kind=ReportKind.WRITER)
    noted.put(table, now_ms)


async def last_write_access(ports: Ports, table: SecurableId) -> int | None:
    """A time until which some server may have given out write access; None if none did."""
    found = await ports.ledger.reports(table, kind=ReportKind.WRITER, limit=1)
    return found[0].at_ms + NOTED_MS if found else None
