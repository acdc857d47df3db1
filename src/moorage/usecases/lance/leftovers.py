"""Deleting staged manifests that never became a version."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Final

from moorage.core.errors import MoorageError
from moorage.core.locations import require_location
from moorage.core.securables import Securable
from moorage.formats.lance.manifests import manifest_folder, staged_version_in
from moorage.storage.port import Listed
from moorage.usecases.ports import Ports

log = logging.getLogger(__name__)

_MIN_AGE_MS: Final = 24 * 60 * 60 * 1000
"""They can no longer be committed. They are kept this long only for troubleshooting."""


async def sweep_line(ports: Ports, table: Securable, ref: str, published: int) -> int:
    """Delete staged manifests below `published`, the newest published version; the number of deleted files.

    A writer that lost a race deletes its own staged manifest. One that was killed, or refused for another reason, does
    not. A version number is never reused, so these files cannot become versions. Folders that the catalog does not
    own are left alone.
    """
    if table.owned_location is None:
        return 0
    location, folder, swept = require_location(table), manifest_folder(ref), 0
    try:
        found = await ports.storage.list(location, folder)
        # On a thread: a long line has tens of thousands of files.
        for path in await asyncio.to_thread(_leftovers, found, folder, published, ports.now_ms() - _MIN_AGE_MS):
            await ports.storage.delete(location, path)
            swept += 1
    except MoorageError as error:  # a later sweep deletes them
        log.warning(
            "staged manifests could not be deleted: %s",
            error.message,
            extra={"fields": {"table": table.id, "ref": ref}},
        )
    return swept


def _leftovers(found: Iterable[Listed], folder: str, published: int, before_ms: int) -> list[str]:
    paths = [each.path for each in found if each.modified_ms < before_ms]
    versions = [staged_version_in(path.removeprefix(folder)) for path in paths]
    return [path for path, version in zip(paths, versions, strict=True) if version is not None and version < published]
