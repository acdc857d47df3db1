"""What an operator must hear of: versions that cannot be published, and files that are not what was ratified."""

from __future__ import annotations

import logging
from typing import Final

from moorage.core.ids import SecurableId

log = logging.getLogger(__name__)

_TELL_AGAIN_MS: Final = 10 * 60 * 1000
_MOST_TOLD: Final = 1_000


class Alarms:
    """Counted whenever they are met, and logged once in a while: damage is met again and again until it is mended."""

    def __init__(self) -> None:
        self.count = 0
        self._told: dict[tuple[SecurableId, str, int, str], int] = {}

    def ring(self, table: SecurableId, ref: str, version: int, message: str, *, now_ms: int) -> None:
        """Something is wrong with this version of a table."""
        self.count += 1
        said = (table, ref, version, message)
        last_ms = self._told.get(said)
        if last_ms is not None and now_ms - last_ms < _TELL_AGAIN_MS:
            return
        if len(self._told) >= _MOST_TOLD:
            self._told.clear()
        self._told[said] = now_ms
        log.error("%s", message, extra={"fields": {"table": table, "version": version}})
