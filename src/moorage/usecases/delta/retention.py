"""How long the files of old versions of a Delta table are kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from moorage.core.retention import retention_ms
from moorage.core.securables import Securable
from moorage.usecases.catalog.relations import RETENTION_DAYS

_DELETED_FILES: Final = "delta.deletedFileRetentionDuration"


def kept_ms(table: Securable, configuration: Mapping[str, str], requested_days: float | None = None) -> int:
    """How long they are kept, by the properties in the log, the description in the catalog, and a request."""
    days = table.doc.details.get(RETENTION_DAYS)
    return retention_ms(requested_days, configuration.get(_DELETED_FILES), days if isinstance(days, int) else None)
