"""Publishing: the bytes of a ratified commit reach their final name, in order, once.

Anybody may do it, any number of times: each version is made sure of before the next, and bytes that
are already there are compared, never replaced.
"""

from __future__ import annotations

import logging
from hashlib import sha256

from moorage.core.errors import Damaged
from moorage.ledger.port import Staged
from moorage.usecases.ports import Ports

log = logging.getLogger(__name__)

LARGEST_COMMIT = 1024 * 1024 * 1024


async def publish_due(ports: Ports, *, older_than_ms: int = 0) -> int:
    """Publish what still waits, line by line; how many versions reached their final name."""
    done, damaged = 0, set[tuple[str, str]]()
    after = ("", "", -1)
    while waiting := await ports.ledger.staged(older_than_ms=older_than_ms, after=after):
        for staged in waiting:
            after = (staged.table, staged.ref, staged.version)
            if after[:2] in damaged:
                continue  # publishing past a damaged version would hide it
            try:
                await _publish(ports, staged)
                done += 1
            except Damaged as error:
                damaged.add(after[:2])
                log.error("%s", error.message, extra={"fields": error.details})
    return done


async def _publish(ports: Ports, staged: Staged) -> None:
    place = (await ports.ledger.lineage(staged.table)).chain[-1].doc.location
    if place is None:
        raise Damaged(f"table {staged.table} has staged commits but no location", table=staged.table)
    data = (
        staged.bytes
        if staged.bytes is not None
        else await ports.storage.read(place, staged.publish.source, limit=LARGEST_COMMIT)
    )
    ratified = _require_ratified(staged, data, staged.publish.source)
    if not await ports.storage.put_new(place, staged.publish.target, ratified):
        found = await ports.storage.read(place, staged.publish.target, limit=LARGEST_COMMIT)
        _require_ratified(staged, found, staged.publish.target)
    await ports.ledger.published(staged.table, staged.ref, staged.version)


def _require_ratified(staged: Staged, data: bytes | None, path: str) -> bytes:
    """These bytes, if they are the very ones that the entry ratified; else Damaged."""
    if data is None or len(data) != staged.size or (staged.digest and sha256(data).hexdigest() != staged.digest):
        raise Damaged(
            f"{path} of table {staged.table} is not what was ratified as version {staged.version}; "
            "its publishing stops here until the right bytes are restored",
            table=staged.table,
            version=staged.version,
        )
    return data
