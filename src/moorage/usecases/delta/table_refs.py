"""A Delta table as the snapshot reader needs it."""

from __future__ import annotations

from moorage.core.securables import MAIN, Securable
from moorage.snapshots.table_ref import Ratified, TableRef
from moorage.usecases.catalog.locations import require_reachable
from moorage.usecases.delta.history import PAGE_SIZE
from moorage.usecases.delta.lookup import STAGED_FOLDER, is_managed, require_head
from moorage.usecases.ports import Ports


async def table_ref(ports: Ports, table: Securable) -> TableRef:
    """A reference to a table, with the ratified commits that its folder may not contain yet."""
    location = table.doc.location or ""
    if not is_managed(table):
        await require_reachable(ports, location)
        return TableRef(id=table.id, location=location)
    head = require_head(table)
    ratified: list[Ratified] = []
    first = (head.published or 0) + 1
    while page := await ports.ledger.versions(table.id, MAIN, first=first, last=head.version, limit=PAGE_SIZE):
        ratified += [
            Ratified(version=row.version, path=STAGED_FOLDER + row.file, size=row.size, digest=row.digest)
            for row in page
        ]
        first = page[-1].version + 1
    return TableRef(id=table.id, location=location, head=head.version, ratified=tuple(ratified), floor=head.floor)
