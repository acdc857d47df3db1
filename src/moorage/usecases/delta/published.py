"""Records up to which version clients published a table, after checking the published files.

A chore publishes the versions that no client publishes. A client that publishes a version reports it, and the server
then no longer announces that version.
"""

from __future__ import annotations

import logging

from moorage.core.errors import InvalidInput, TooLarge
from moorage.core.securables import MAIN, Head, Securable
from moorage.storage.digests import digest_of
from moorage.usecases.delta.lookup import published_path, require_head
from moorage.usecases.ports import Ports

log = logging.getLogger(__name__)

FIELD = "latest_published_version"


def require_nonnegative(version: int) -> None:
    """Check a reported version before anything is looked up."""
    if version < 0:
        raise InvalidInput(f"the published version {version} is negative; it must be 0 or more", field=FIELD)


async def record_published(ports: Ports, table: Securable, version: int) -> None:
    """Record that the client published all versions up to this one; InvalidInput if one is not published."""
    head = require_head(table)
    if head.version == 0:
        raise InvalidInput("the table has no commit after version 0 that could be published", field=FIELD)
    await _record(ports, table, head, version)


async def record_published_with_commit(ports: Ports, table: Securable, version: int) -> None:
    """The same for a report that was sent with a commit. A wrong report does not fail the commit.

    The client lists the folder for its report, and may name a version that another writer has just won.
    """
    try:
        await _record(ports, table, require_head(table), version)
    except InvalidInput as error:
        log.info(
            "ignored a published version that could not be verified: %s",
            error.message,
            extra={"fields": {"table": table.id}},
        )


async def _record(ports: Ports, table: Securable, head: Head, version: int) -> None:
    if version > head.version:
        raise InvalidInput(f"version {version} was never ratified; the latest version is {head.version}", field=FIELD)
    if version > (head.published or 0):
        await _require_published(ports, table, (head.published or 0) + 1, version)
    if version > max(head.client_published, 0):
        await ports.ledger.record_published(table.id, MAIN, version, by_client=True)


async def _require_published(ports: Ports, table: Securable, first: int, last: int) -> None:
    for ratified in await ports.ledger.versions(table.id, MAIN, first=first, last=last, limit=last - first + 1):
        path = published_path(ratified.version)
        try:
            data = await ports.storage.read(table.doc.location or "", path, limit=ratified.size)
        except TooLarge:
            data = b""
        if data is None:
            raise InvalidInput(f"{path} does not exist, so it is not published", field=FIELD)
        if await digest_of(data) != ratified.digest:
            # Clients that read the folder now read another history than the ratified one.
            message = f"{path} of table {table.id} is not the commit that was ratified as version {ratified.version}"
            ports.alarms.report(table.id, MAIN, ratified.version, message, now_ms=ports.now_ms())
            raise InvalidInput(message, field=FIELD)
