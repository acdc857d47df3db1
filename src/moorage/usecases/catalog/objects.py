"""Create, update, rename, drop and undrop named objects.

Each `prepare_…` function returns a part. A request settles one part, and a transaction joins several. `together` is
what the other operations of the transaction do, and `field` is the request field that gave the name.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from moorage import fresh
from moorage.access.port import require
from moorage.core.absence import not_found_type
from moorage.core.callers import Caller
from moorage.core.entries import (
    Create,
    Done,
    Drop,
    Empty,
    Live,
    LocationFree,
    NameFree,
    Rename,
    RevisionIs,
    Undrop,
    Update,
)
from moorage.core.errors import (
    AlreadyPurged,
    InvalidInput,
    NameTaken,
    NotEmpty,
    RevisionMoved,
    SecurableNotFound,
)
from moorage.core.ids import SecurableId, is_id
from moorage.core.names import name_key, require_name
from moorage.core.privileges import Privilege
from moorage.core.securables import SHELF_OF, Doc, Kind, Securable, Shelf, restore_ownership
from moorage.usecases.catalog.addresses import Address, find_parent, reach, reach_destination, reach_parent
from moorage.usecases.catalog.owners import require_principal
from moorage.usecases.parts import Part
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.settling.settle import settle_one
from moorage.usecases.settling.transact import ALONE, SameTransaction

CONTAINERS = frozenset({Kind.CATALOG, Kind.NAMESPACE})


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """A change of an object's description. Absent fields stay as they are."""

    comment: str | msgspec.UnsetType | None = msgspec.UNSET
    owner: str | msgspec.UnsetType = msgspec.UNSET
    set_properties: Mapping[str, str] = {}
    remove_properties: tuple[str, ...] = ()


async def create(ports: Ports, errand: Errand, address: Address, doc: Doc, *, field: str = "name") -> Securable:
    """Create an object under a name that is free."""
    return await settle_one(ports, errand, lambda caller: prepare_create(ports, caller, address, doc, field=field))


async def update(
    ports: Ports, errand: Errand, address: Address, description: Description, *, revision: int | None = None
) -> Securable:
    """Change the description of an object."""
    return await settle_one(
        ports, errand, lambda caller: prepare_update(ports, caller, address, description, revision=revision)
    )


async def rename(ports: Ports, errand: Errand, address: Address, to: Address) -> Securable:
    """Give an object another name, or a table or view another namespace."""
    return await settle_one(ports, errand, lambda caller: prepare_rename(ports, caller, address, to))


async def drop(ports: Ports, errand: Errand, address: Address, *, cascade: bool = False) -> Securable:
    """Drop an object; it can be undropped until its hold ends."""
    return await settle_one(ports, errand, lambda caller: prepare_drop(ports, caller, address, cascade=cascade))


async def undrop(ports: Ports, errand: Errand, id: str, kind: Kind, *, name: str | None = None) -> Securable:
    """Restore a dropped object, under its old name or a new one."""
    return await settle_one(ports, errand, lambda caller: prepare_undrop(ports, caller, id, kind, name=name))


async def prepare_create(
    ports: Ports,
    caller: Caller,
    address: Address,
    doc: Doc,
    *,
    together: SameTransaction = ALONE,
    field: str = "name",
) -> Part:
    """The creation of an object under a name that is free."""
    above, holder = await reach_parent(ports, caller, address)
    _require_free(address, holder, together, field)
    require_not_dropped(above, together, field)
    parent = above[-1].id if above else ports.ledger.root
    id = fresh.securable_id()
    return Part(
        expects=(Live(parent), NameFree(parent, address.shelf, address.key)),
        changes=(Create(id=id, kind=address.kind, parent=parent, name=address.path[-1], owner=caller.id, doc=doc),),
        done=Done(ids=(id,)),
    )


async def prepare_update(
    ports: Ports, caller: Caller, address: Address, description: Description, *, revision: int | None = None
) -> Part:
    """The change of an object's description. With `revision`, only if the object is still at that revision."""
    chain = await reach(ports, caller, address, Privilege.MODIFY)
    before = chain[-1]
    owner = None
    if description.owner is not msgspec.UNSET and description.owner != before.owner:
        require(ports.access, caller, Privilege.MANAGE, chain)
        owner = await require_principal(ports, description.owner, "owner")
    if revision is not None and revision != before.revision:
        raise RevisionMoved(
            f"{before.kind} '{address}' is at revision {before.revision}, not {revision}; read it again",
            field="revision",
            revision=before.revision,
        )
    return Part(
        expects=(Live(before.id), RevisionIs(before.id, before.revision)),
        changes=(Update(id=before.id, doc=apply_description(before.doc, description), owner=owner),),
        done=Done(ids=(before.id,)),
        before=before,
    )


async def prepare_rename(
    ports: Ports,
    caller: Caller,
    address: Address,
    to: Address,
    *,
    together: SameTransaction = ALONE,
    field: str = "new_name",
) -> Part:
    """The change of an object's name. Tables and views may also move to another namespace. No file moves."""
    chain = await reach(ports, caller, address, Privilege.MANAGE)
    before = chain[-1]
    above, holder = await reach_destination(ports, caller, to, before.parent)
    parent = above[-1].id if above else ports.ledger.root
    if parent != before.parent and before.kind in CONTAINERS:
        raise InvalidInput(f"a {before.kind} cannot move to another parent; only its name can change", field=field)
    if holder is not None and holder.id != before.id:
        _require_free(to, holder, together, field)
    require_not_dropped(above, together, field)
    return Part(
        expects=(
            Live(before.id),
            RevisionIs(before.id, before.revision),
            Live(parent),
            NameFree(parent, to.shelf, to.key),
        ),
        changes=(Rename(id=before.id, parent=parent, name=to.path[-1]),),
        done=Done(ids=(before.id,)),
        before=before,
    )


async def prepare_drop(ports: Ports, caller: Caller, address: Address, *, cascade: bool = False) -> Part:
    """The drop of an object. Its name is free immediately, and its files stay for the hold period.

    A cascade writes one row, however many objects are below it.
    """
    chain = await reach(ports, caller, address, Privilege.MANAGE)
    before = chain[-1]
    restricted = before.kind in CONTAINERS and not cascade
    if restricted:
        await _require_empty(ports, before, address)
    return Part(
        expects=(
            Live(before.id),
            RevisionIs(before.id, before.revision),
            *((Empty(before.id),) if restricted else ()),
        ),
        changes=(Drop(id=before.id, hold_ms=ports.hold_ms),),
        done=Done(ids=(before.id,)),
        before=before,
    )


async def prepare_undrop(ports: Ports, caller: Caller, id: str, kind: Kind, *, name: str | None = None) -> Part:
    """The undrop of an object and of everything that was live below it, under the old name or a new one."""
    chain = (await ports.ledger.lineage(SecurableId(id))).chain if is_id(id) else ()
    absent = SecurableNotFound(f"no dropped {kind} has the id '{id}'; it may have been purged", id=id)
    if not chain or chain[-1].kind is not kind:
        raise absent
    before, above = chain[-1], chain[:-1]
    require(ports.access, caller, Privilege.MANAGE, chain, hidden=lambda: absent)
    if before.is_live:
        raise NameTaken(f"{kind} '{before.name}' is not dropped", id=id)
    if before.purged or ports.now_ms() >= (before.purge_at_ms or 0):
        raise AlreadyPurged(f"the hold of {kind} '{before.name}' has ended; it can no longer be undropped", id=id)
    parent = next((part for part in above if not part.is_live), None)
    if parent is not None:
        raise not_found_type(parent.kind)(
            f"{parent.kind} '{parent.name}' is dropped too; undrop it first", id=parent.id
        )
    wanted = before.name if name is None else require_name(name, "new_name")
    address = Address(kind, (*(part.name for part in above), wanted))
    _, holder = await find_parent(ports.ledger, address)
    if holder is not None:
        raise NameTaken(f"{holder.kind} '{address}' already exists; undrop under a new_name", field="new_name")
    doc = restore_ownership(before.doc)
    return Part(
        expects=(
            RevisionIs(before.id, before.revision),
            Live(before.parent),
            NameFree(before.parent, SHELF_OF[kind], name_key(wanted)),
        ),
        changes=(Undrop(id=before.id, name=wanted), *((Update(id=before.id, doc=doc),) if doc != before.doc else ())),
        done=Done(ids=(before.id,)),
        before=before,
    )


def with_location(part: Part, location: str) -> Part:
    """A creation that also takes a location, which no other object may hold."""
    create = part.changes[0]
    if not isinstance(create, Create):
        raise TypeError(f"only a creation takes a location, not {create}")
    create = replace(create, doc=replace(create.doc, location=location), place=location)
    return replace(part, expects=(*part.expects, LocationFree(location)), changes=(create, *part.changes[1:]))


def apply_description(doc: Doc, description: Description) -> Doc:
    """The record after the change; InvalidInput if a property is both set and removed."""
    comment = doc.comment if description.comment is msgspec.UNSET else description.comment
    given, removed = description.set_properties, description.remove_properties
    kept = doc.properties
    if removed:
        both = given.keys() & set(removed)
        if both:
            raise InvalidInput(f"property '{min(both)}' is both set and removed", field="remove_properties")
        kept = {key: value for key, value in kept.items() if key not in removed}
    return replace(doc, comment=comment, properties={**kept, **given})


def _require_free(address: Address, holder: Securable | None, together: SameTransaction, field: str) -> None:
    if holder is not None and holder.id not in together.released:
        raise NameTaken(
            f"{holder.kind} '{address}' already exists",
            field=field,
            name=str(address),
            kind=str(holder.kind),
        )


def require_not_dropped(above: tuple[Securable, ...], together: SameTransaction, field: str) -> None:
    """Refuse an object below one that the same transaction drops: it would be created and never be visible."""
    dropped = next((part for part in above if part.id in together.dropped), None)
    if dropped is not None:
        raise InvalidInput(f"the same transaction drops {dropped.kind} '{dropped.name}'", field=field)


async def _require_empty(ports: Ports, before: Securable, address: Address) -> None:
    for shelf in (Shelf.NAMESPACE, Shelf.RELATION, Shelf.VOLUME, Shelf.FUNCTION, Shelf.MODEL, Shelf.PIPELINE):
        items = (await ports.ledger.children(before.id, shelf, limit=1)).items
        if items:
            raise NotEmpty(
                f"{before.kind} '{address}' still contains {items[0].kind} '{items[0].name}'; "
                "drop its contents first, or drop it with cascade",
                name=str(address),
            )
