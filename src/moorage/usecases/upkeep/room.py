"""Room for those who bring their own files: what the catalog only remembers does not stand in their way."""

from __future__ import annotations

from contextlib import suppress

from moorage import fresh
from moorage.core.callers import SYSTEM
from moorage.core.entries import Draft, Erase, PlaceFree, RevisionIs
from moorage.core.errors import Damaged, PlaceTaken
from moorage.core.ids import SecurableId
from moorage.ledger.port import Stale
from moorage.usecases.ports import Ports
from moorage.usecases.upkeep.publish import publish_table
from moorage.usecases.upkeep.purge import purge


async def make_room(ports: Ports, expect: PlaceFree, holder_id: SecurableId) -> None:
    """After a place was found taken: PlaceTaken, unless its holder is gone but for its record.

    A dropped object keeps its place until its hold has ended, because its files are still there. Those of an
    external one were never ours, and registering them again must not wait for the purge: the record
    is erased instead, and cannot be undropped any more. Its last versions may only be there, so they are published
    before. If they were to be purged, whoever wants this very place for new files ends their hold, and whoever wants it
    as it is keeps them.
    """
    chain = (await ports.ledger.lineage(holder_id)).chain
    if not chain:
        return  # it was erased meanwhile: the place is free
    holder = chain[-1]
    gone = next((part for part in chain if not part.is_live), None)
    is_reused = holder.is_doomed and expect.path in holder.places
    is_saved = is_reused and not expect.anew and not holder.purged
    if not holder.is_live and not is_saved and (is_reused or holder.due_ms <= ports.now_ms()):
        await purge(ports, holder)  # nobody needs to wait for the chore
        return
    if gone is None or (holder.own_place is not None and not is_saved):
        whose = "another" if gone is None else "a dropped"
        raise PlaceTaken(f"the location '{expect.path}' overlaps that of {whose} {holder.kind}", field="location")
    with suppress(Damaged):  # whoever registers the files takes them as they are
        await publish_table(ports, holder.id)
    with suppress(Stale):  # somebody was faster; the next try sees what they did
        await ports.ledger.append(
            Draft(
                id=fresh.draft_id(),
                caller=SYSTEM.id,
                api="chores",
                request="make room",
                # Its dropped ancestor too: whoever brings the tree back at this moment wins.
                expects=(RevisionIs(holder.id, holder.revision), RevisionIs(gone.id, gone.revision)),
                changes=(Erase(ids=(holder.id,)),),
            )
        )
