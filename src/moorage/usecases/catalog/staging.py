"""Staging tables: reserved ids and locations for tables to come, purged with their files if no table is created.

The record of a staging table lets upkeep find its location without searching the disk. The entry that creates the table
gives it the id and the location of its staging table.
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
from moorage.core.names import name_key
from moorage.core.securables import FORMER_LOCATIONS, Doc, Kind, Securable, Shelf
from moorage.usecases.catalog.addresses import Address, find_by_id, find_chain
from moorage.usecases.parts import Part
from moorage.usecases.ports import Ports

STAGED_NAME: Final = "name"
"""In a staging table's details: the name of the table to come. Two may be staged under one name; one will get it."""
_LIFETIME_MS: Final = 24 * 60 * 60 * 1000
_PAGE: Final = 500


def prepare_staging_table(ports: Ports, caller: Caller, above: tuple[Securable, ...], name: str) -> Part:
    """The creation of a staging table below these ancestors, for a table that a client is about to write."""
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


def create_from_staging_table(staging: Securable, creation: P) -> P:
    """The creation of a table with the id and the location of its staging table."""
    create = creation_in(creation.changes)
    return replace(
        creation,
        expects=(
            RevisionIs(staging.id, staging.revision),
            *(each for each in creation.expects if not _requires_free(each, staging.doc.location)),
        ),
        changes=(*turn_into_table(staging, create), *(change for change in creation.changes if change is not create)),
    )


def _requires_free(expect: Expect, location: str | None) -> bool:
    return isinstance(expect, LocationFree) and expect.path == location


def turn_into_table(staging: Securable, table: Create) -> tuple[Change, ...]:
    """The changes by which a staging table becomes a table.

    The last change continues the revision numbers of the staging table, so that a purge which read the staging table
    just before conflicts. A table at another location also keeps the location of its staging table, as if it had
    moved from there: the client may have written files there.
    """
    staged, doc = staging.doc.location, table.doc
    moved = None if table.place == staged else table.place
    if moved is not None:
        doc = replace(doc, details={**doc.details, FORMER_LOCATIONS: [staged]})
    return (
        Erase(ids=(staging.id,)),
        replace(table, doc=doc, place=staged),
        Update(id=table.id, doc=doc, place=moved),
    )


def creation_in(changes: Iterable[Change]) -> Create:
    """The creation among the changes of a part that creates an object."""
    return next(change for change in changes if isinstance(change, Create))


async def find_staging_table(ports: Ports, caller: Caller, above: tuple[Securable, ...], id: str) -> Securable | None:
    """The staging table of an id below these ancestors; None if there is none. Forbidden for other callers."""
    chain = await find_by_id(ports.ledger, id)
    if not chain or chain[-1].kind is not Kind.STAGING_TABLE or chain[-1].parent != above[-1].id:
        return None
    require_staged_by(chain[-1], caller)
    return chain[-1]


async def find_staging_table_at(
    ports: Ports, caller: Caller, above: tuple[Securable, ...], location: str
) -> Securable | None:
    """The staging table of a location; None if there is none."""
    staging = await find_staging_table(ports, caller, above, id_from_location(location))
    return staging if staging is not None and staging.doc.location == location else None


async def find_staged_name(ports: Ports, caller: Caller, address: Address) -> Securable | None:
    """The newest table that this caller staged under a name; None if there is none, or if the name is in use."""
    above = (await find_chain(ports.ledger, address)).chain
    if len(above) != len(address.path) - 1:
        return None
    found, after = None, ""
    while True:
        listing = await ports.ledger.children(above[-1].id, Shelf.STAGING_TABLE, after=after, limit=_PAGE)
        for staging in listing.items:  # in the order of their ids, which is the order of their creation
            if is_staged_by(staging, caller) and name_key(staging.doc.details.get(STAGED_NAME, "")) == address.key:
                found = staging
        if len(listing.items) < _PAGE:
            return found
        after = name_key(listing.items[-1].name)


def id_from_location(location: str) -> str:
    """The id in a location that the catalog assigned."""
    return location.rstrip("/").rpartition("/")[2]


def require_staged_by(staging: Securable, caller: Caller) -> None:
    if not is_staged_by(staging, caller):
        raise Forbidden(f"the table at '{staging.doc.location}' was staged by another caller")


def is_staged_by(staging: Securable, caller: Caller) -> bool:
    """Whether the caller staged the table. The token of a job is only for the table of the job."""
    return staging.created_by == caller.id and caller.job is None
