"""What clients say they have published: believed once it was found.

A version that nobody publishes is published by a chore; a client that publishes it itself says so, and
need not be told of it any more.
"""

from __future__ import annotations

import logging

from moorage.core.errors import InvalidInput, TooLarge
from moorage.core.securables import MAIN, Head, Securable
from moorage.storage.digests import digest_of
from moorage.usecases.delta.lookup import head_of, published_name
from moorage.usecases.ports import Ports

log = logging.getLogger(__name__)

FIELD = "latest_published_version"


def require_nonnegative(version: int) -> None:
    """What can be said of a claim before anything is looked up."""
    if version < 0:
        raise InvalidInput(f"the published version {version} is negative", field=FIELD)


async def record_published(ports: Ports, table: Securable, version: int) -> None:
    """Note that versions up to this one were published; InvalidInput if that is not so."""
    head = head_of(table)
    if head.version == 0:
        raise InvalidInput("the table has no commit that could be published", field=FIELD)
    await _record(ports, table, head, version)


async def record_published_beside_commit(ports: Ports, table: Securable, version: int) -> None:
    """The same for a claim that came with a commit, which it is not worth failing for.

    The client lists its folder to make the claim, and may name a version that it has just lost.
    """
    try:
        await _record(ports, table, head_of(table), version)
    except InvalidInput as error:
        log.info("an unproven claim was ignored: %s", error.message, extra={"fields": {"table": table.id}})


async def _record(ports: Ports, table: Securable, head: Head, version: int) -> None:
    if version > head.version:
        raise InvalidInput(f"version {version} was never ratified; the latest is {head.version}", field=FIELD)
    if version > (head.published or 0):
        await _require_published(ports, table, (head.published or 0) + 1, version)
    if version > max(head.client_published, 0):
        await ports.ledger.record_published(table.id, MAIN, version, by_client=True)


async def _require_published(ports: Ports, table: Securable, first: int, last: int) -> None:
    for ratified in await ports.ledger.versions(table.id, MAIN, first=first, last=last, limit=last - first + 1):
        path = published_name(ratified.version)
        try:
            data = await ports.storage.read(table.doc.location or "", path, limit=ratified.size)
        except TooLarge:
            data = b""
        if data is None:
            raise InvalidInput(f"{path} does not exist, so it is not published", field=FIELD)
        if await digest_of(data) != ratified.digest:
            # Whoever reads the folder now reads another history than ours.
            message = f"{path} of table {table.id} is not what was ratified as version {ratified.version}"
            ports.alarms.ring(table.id, MAIN, ratified.version, message, now_ms=ports.now_ms())
            raise InvalidInput(message, field=FIELD)
