"""Stages: places of our own that are given out for tables to come, and purged with their files if none comes.

The row of a stage is what upkeep knows such a place by, so nothing has to be looked for on the disk. A table that
comes takes over the id and the place of its stage, in the entry that creates it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeVar

from msgspec.structs import replace

from moorage import fresh
from moorage.core.callers import Caller
from moorage.core.entries import Change, Create, Done, Erase, Expect, Live, LocationFree, RevisionIs, Update
from moorage.core.errors import Forbidden
from moorage.core.locations import assigned_location
from moorage.core.securables import FORMER_LOCATIONS, Doc, Kind, Securable
from moorage.usecases.catalog.addresses import look_by_id
from moorage.usecases.parts import Part
from moorage.usecases.ports import Ports

STAGED_NAME: Final = "name"
"""In a stage's details: what the table is to be called. Two may be staged under one name; one will have it."""
_LIFETIME_MS: Final = 24 * 60 * 60 * 1000


def staging(ports: Ports, caller: Caller, above: tuple[Securable, ...], name: str) -> Part:
    """An id and a place below these ancestors for a table that somebody is about to write."""
    id = fresh.securable_id()
    location = assigned_location(ports.roots, above, "tables", id)
    create = Create(
        id=id,
        kind=Kind.STAGING_TABLE,
        parent=above[-1].id,
        name=id,
        owner=caller.id,
        doc=Doc(location=location, details={STAGED_NAME: name}),
        place=location,
        lifetime_ms=_LIFETIME_MS,
    )
    return Part(expects=(Live(above[-1].id), LocationFree(location)), changes=(create,), done=Done(ids=(id,)))


P = TypeVar("P", bound=Part)


def created_from_staging(stage: Securable, creation: P) -> P:
    """The creation of the table that a stage was given out for: one id and one place from the first request on."""
    create = creation_in(creation.changes)
    return replace(
        creation,
        expects=(
            RevisionIs(stage.id, stage.revision),
            *(each for each in creation.expects if not _is_place(each, stage.doc.location)),
        ),
        changes=(*staging_becomes(stage, create), *(change for change in creation.changes if change is not create)),
    )


def _is_place(expect: Expect, held: str | None) -> bool:
    return isinstance(expect, LocationFree) and expect.path == held


def staging_becomes(stage: Securable, table: Create) -> tuple[Change, ...]:
    """The changes by which a stage becomes a table.

    The last one counts the revision on from the stage's: a purge that still has the stage in mind, because it was
    about to end, must find that it is no more what it saw. A table that came to lie elsewhere keeps the place of
    its stage, as if it had moved from there: what its client wrote before may be in it.
    """
    held, doc = stage.doc.location, table.doc
    moved = None if table.place == held else table.place
    if moved is not None:
        doc = replace(doc, details={**doc.details, FORMER_LOCATIONS: [held]})
    return (
        Erase(ids=(stage.id,)),
        replace(table, doc=doc, place=held),
        Update(id=table.id, doc=doc, place=moved),
    )


def creation_in(changes: Iterable[Change]) -> Create:
    """What is created by the changes of a part that creates something."""
    return next(change for change in changes if isinstance(change, Create))


async def find_stage(ports: Ports, caller: Caller, above: tuple[Securable, ...], id: str) -> Securable | None:
    """The stage of this id below these ancestors, if it waits for its table. It is for whoever staged it."""
    chain = await look_by_id(ports.ledger, id)
    if not chain or chain[-1].kind is not Kind.STAGING_TABLE or chain[-1].parent != above[-1].id:
        return None
    require_own(chain[-1], caller)
    return chain[-1]


async def find_stage_at(ports: Ports, caller: Caller, above: tuple[Securable, ...], place: str) -> Securable | None:
    """The same by the place that was given out for it."""
    stage = await find_stage(ports, caller, above, id_in(place))
    return stage if stage is not None and stage.doc.location == place else None


def id_in(place: str) -> str:
    """The id for which a place was given out, if it was."""
    return place.rstrip("/").rpartition("/")[2]


def require_own(stage: Securable, caller: Caller) -> None:
    if stage.created_by != caller.id:
        raise Forbidden(f"the table at '{stage.doc.location}' was staged by somebody else")
