"""Stages: places of our own that are given out for tables to come, and purged with their files if none comes.

The row of a stage is what upkeep knows such a place by, so nothing has to be looked for on the disk. A table that
comes takes over the id and the place of its stage, in the entry that creates it.
"""

from __future__ import annotations

from typing import Final

from moorage import fresh
from moorage.core.callers import Caller
from moorage.core.entries import Change, Create, Done, Erase, Live, PlaceFree, Update
from moorage.core.errors import Forbidden
from moorage.core.ids import SecurableId, is_id
from moorage.core.securables import Doc, Kind, Securable
from moorage.usecases.places import given_place
from moorage.usecases.ports import Ports
from moorage.usecases.settle import Part

STAGED_NAME: Final = "name"
"""In a stage's details: what the table is to be called. Two may be staged under one name; one will have it."""
_LIFETIME_MS: Final = 24 * 60 * 60 * 1000


def staging(ports: Ports, caller: Caller, above: tuple[Securable, ...], name: str) -> Part:
    """An id and a place below these ancestors for a table that somebody is about to write."""
    id = fresh.securable_id()
    location = given_place(ports, above, "tables", id)
    create = Create(
        id=id,
        kind=Kind.STAGE,
        parent=above[-1].id,
        name=id,
        owner=caller.name,
        doc=Doc(location=location, details={STAGED_NAME: name}),
        place=location,
        lifetime_ms=_LIFETIME_MS,
    )
    return Part(expects=(Live(above[-1].id), PlaceFree(location)), changes=(create,), done=Done(ids=(id,)))


def becoming(stage: Securable, table: Create) -> tuple[Change, ...]:
    """The changes by which a stage becomes a table.

    The last one counts the revision on from the stage's: a purge that still has the stage in mind, because it was
    about to end, must find that it is no more what it saw.
    """
    return (Erase(ids=(stage.id,)), table, Update(id=table.id, doc=table.doc))


async def find_stage(ports: Ports, caller: Caller, place: str) -> Securable | None:
    """The stage at a place, if there is one that waits for its table. It is for whoever staged it."""
    id = place.rstrip("/").rpartition("/")[2]
    chain = (await ports.ledger.lineage(SecurableId(id))).chain if is_id(id) else ()
    if not chain or chain[-1].kind is not Kind.STAGE or chain[-1].doc.location != place:
        return None
    if not all(part.is_live for part in chain):
        return None
    if chain[-1].owner != caller.name:
        raise Forbidden(f"the table at '{place}' was staged by somebody else")
    return chain[-1]
