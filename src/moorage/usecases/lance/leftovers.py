"""What writers of Lance tables leave behind: manifests that they staged and that never became a version."""

from __future__ import annotations

import logging
from typing import Final

from moorage.core.errors import MoorageError
from moorage.core.locations import require_location
from moorage.core.securables import Securable
from moorage.formats.lance.manifests import manifest_folder, staged_version_in
from moorage.usecases.ports import Ports

log = logging.getLogger(__name__)

_AGE_MS: Final = 24 * 60 * 60 * 1000
"""Nobody can use them any more, so this is only for those who look for what went wrong."""


async def sweep_line(ports: Ports, table: Securable, ref: str, published: int) -> int:
    """Delete the staged manifests of versions that others became; how many. `published` is the newest published one.

    Those who lose a race delete their own; those who were killed, or refused for another reason, do not. A number
    is never given out twice, so up to there they are of no use. A folder that is not ours is left alone.
    """
    if table.owned_location is None:
        return 0
    place, folder, swept = require_location(table), manifest_folder(ref), 0
    try:
        for listed in await ports.storage.list(place, folder):
            version = staged_version_in(listed.path[len(folder) :])
            if version is not None and version < published and listed.modified_ms < ports.now_ms() - _AGE_MS:
                await ports.storage.delete(place, listed.path)
                swept += 1
    except MoorageError as error:  # nothing waits for it
        log.warning("staged manifests stay: %s", error.message, extra={"fields": {"table": table.id, "ref": ref}})
    return swept
