"""Locations held by dropped objects, released for a request that needs them."""

from __future__ import annotations

from contextlib import suppress

from moorage import fresh
from moorage.core.callers import SYSTEM
from moorage.core.entries import Draft, Erase, LocationFree, RevisionIs
from moorage.core.errors import Damaged, PlaceTaken
from moorage.core.ids import SecurableId
from moorage.ledger.port import Stale
from moorage.usecases.ports import Ports
from moorage.usecases.upkeep.publish import publish_table
from moorage.usecases.upkeep.purge import purge


async def release_location(ports: Ports, expect: LocationFree, holder_id: SecurableId) -> None:
    """Release a location that another object holds; PlaceTaken if that object still needs it.

    A dropped object keeps its location until its hold ends, because its files are still there. The files of an
    external table never belonged to the catalog, so registering them again must not wait for the purge. Instead the
    record of the dropped table is erased, and it can no longer be undropped. Its last versions may exist only in the
    ledger, so they are published first. If its purge was requested, a request for new files in this very location
    ends the hold, and a request for the files as they are keeps them.
    """
    chain = (await ports.ledger.lineage(holder_id)).chain
    if not chain:
        return  # it has been erased: the location is free
    holder = chain[-1]
    dropped = next((part for part in chain if not part.is_live), None)
    is_reused = holder.is_purge_requested and expect.path in holder.locations
    is_saved = is_reused and not expect.anew and not holder.purged
    if not holder.is_live and not is_saved and (is_reused or holder.due_ms <= ports.now_ms()):
        await purge(ports, holder)
        return
    if dropped is None or (holder.owned_location is not None and not is_saved):
        owner = "another" if dropped is None else "a dropped"
        raise PlaceTaken(f"the location '{expect.path}' overlaps that of {owner} {holder.kind}", field="location")
    with suppress(Damaged):  # the files are registered as they are
        await publish_table(ports, holder.id)
    with suppress(Stale):  # another writer was faster; the next attempt sees the result
        await ports.ledger.append(
            Draft(
                id=fresh.draft_id(),
                caller=SYSTEM.id,
                api="chores",
                request="release location",
                # Its dropped ancestor too: a concurrent undrop of the tree wins.
                expects=(RevisionIs(holder.id, holder.revision), RevisionIs(dropped.id, dropped.revision)),
                changes=(Erase(ids=(holder.id,)),),
            )
        )
