"""How long what the servers of a ledger hand out can be used. A deletion of files waits for the longest of it.

Each server states the lifetime of its URLs in the ledger. Another server may have another setting, and a URL remains
valid when its server is started again with a shorter one.
"""

from __future__ import annotations

from typing import Final

from moorage.core.locations import scheme_of
from moorage.core.reports import ReportKind
from moorage.core.securables import Securable
from moorage.ledger.port import Report
from moorage.usecases.ports import Ports

KEY_MS: Final = 60 * 60 * 1000
"""No key for an object store is valid for longer."""
_DAY_MS: Final = 24 * 60 * 60 * 1000
_BETWEEN_NOTES_MS: Final = 2 * _DAY_MS
"""A server that runs states its lifetime again after a day. Its chores look at least every 30 hours."""
_MAX_LIFETIMES: Final = 1_000


async def record_lifetime(ports: Ports) -> int:
    """State in the ledger how long the URLs of this server are valid. Each lifetime is one note, written once a day."""
    seconds, now_ms = -(-ports.share_url_lifetime_ms // 1000), ports.now_ms()
    if not any(each.version == seconds and now_ms < each.at_ms + _DAY_MS for each in await _noted(ports)):
        await ports.ledger.store_report(ports.ledger.root, seconds, b"{}", kind=ReportKind.LIFETIME)
    return 0


async def deletion_delay_ms(ports: Ports, table: Securable) -> int:
    """How long after a raised floor the files of older versions are kept: until nothing handed out can be used."""
    now_ms, noted = ports.now_ms(), await _noted(ports)
    urls_ms = [each.version * 1000 for each in noted if now_ms < each.at_ms + _BETWEEN_NOTES_MS + each.version * 1000]
    keys_ms = 0 if all(scheme_of(location) == "file" for location in table.locations) else KEY_MS
    return max(ports.min_deletion_delay_ms, ports.share_url_lifetime_ms, keys_ms, *urls_ms)


async def _noted(ports: Ports) -> tuple[Report, ...]:
    return await ports.ledger.reports(ports.ledger.root, kind=ReportKind.LIFETIME, limit=_MAX_LIFETIMES)
