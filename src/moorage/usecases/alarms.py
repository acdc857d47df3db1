"""Alarms: faults that an operator must see, such as a version that cannot be published or an altered file."""

from __future__ import annotations

import logging
from typing import Final

from moorage.core.ids import SecurableId

log = logging.getLogger(__name__)

_LOG_INTERVAL_MS: Final = 10 * 60 * 1000
_MAX_RECENT: Final = 1_000


class Alarms:
    """Counts every alarm and logs each at most every ten minutes: damage is found repeatedly until it is repaired."""

    def __init__(self) -> None:
        self.count = 0
        self._logged_ms: dict[tuple[SecurableId, str, int, str], int] = {}

    def report(self, table: SecurableId, ref: str, version: int, message: str, *, now_ms: int) -> None:
        """Count a fault of this version of a table, and log it unless it was logged recently."""
        self.count += 1
        alarm = (table, ref, version, message)
        last_ms = self._logged_ms.get(alarm)
        if last_ms is not None and now_ms - last_ms < _LOG_INTERVAL_MS:
            return
        if len(self._logged_ms) >= _MAX_RECENT:
            self._logged_ms.clear()
        self._logged_ms[alarm] = now_ms
        log.error("%s", message, extra={"fields": {"table": table, "version": version}})
