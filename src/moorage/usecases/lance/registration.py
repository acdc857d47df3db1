"""Taking in Lance datasets that others have written: their manifests tell which versions there are."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from moorage import fresh
from moorage.access.port import require
from moorage.core.callers import Caller
from moorage.core.entries import Commit, Create, Done, HeadIs, Live, LocationFree, NameFree, RevisionIs, Update
from moorage.core.errors import InvalidInput
from moorage.core.ids import SecurableId
from moorage.core.locations import registered_location
from moorage.core.privileges import Privilege
from moorage.core.securables import MAIN, Doc, Kind, Securable, TableDoc
from moorage.core.versions import VersionKind
from moorage.formats.lance.manifests import require_manifest
from moorage.formats.lance.refs import BRANCHES, ref_name
from moorage.usecases.catalog.addresses import Address, Chain
from moorage.usecases.lance.lookup import LANCE, is_lance, taken
from moorage.usecases.lance.manifests import LARGEST_MANIFEST, Found, manifests_in
from moorage.usecases.lance.tables import dropping_table, find_room
from moorage.usecases.parts import Part
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.settling.settle import settle_one

MOST_VERSIONS = 900
"""So many versions of a dataset are taken in, the newest of each line first: one entry has to tell of them all."""


class Registration(msgspec.Struct, frozen=True, kw_only=True):
    """What a request says of the dataset that it brings."""

    address: Address
    location: str
    properties: dict[str, str]
    overwrite: bool


async def register_table(ports: Ports, errand: Errand, new: Registration) -> Securable:
    """A table from a dataset that lies somewhere already. Its files stay its owner's."""

    async def prepare(caller: Caller) -> Part:
        above, holder = await find_room(ports, caller, new.address)
        if holder is None:
            return await _creation(ports, caller, new, above)
        if not (new.overwrite and is_lance(holder)):
            raise taken(new.address, holder)
        require(ports.access, caller, Privilege.MANAGE, (*above, holder))
        return await _overwriting(ports, caller, new, above, holder)

    return await settle_one(ports, errand, prepare)


async def _overwriting(ports: Ports, caller: Caller, new: Registration, above: Chain, holder: Securable) -> Part:
    """The table that has the name goes and its files stay; one that lies there already is described anew."""
    place = registered_location(ports.roots, new.location, field="location")
    if place == holder.doc.location:
        return await _renewal(ports, new, holder, place)
    gone = dropping_table(ports, holder, keep_files=True)
    part = await _creation(ports, caller, new, above)
    # The creation first: it is what the answer shows.
    return replace(part, expects=(*gone.expects, *part.expects), changes=(*part.changes, *gone.changes))


async def _renewal(ports: Ports, new: Registration, holder: Securable, place: str) -> Part:
    """The same table with other properties, and with the versions that others have added to its dataset.

    None are added to one that is the catalog's own: there they are strays.
    """
    heads, more = dict[str, int | None](), list[Found]()
    for found in await _versions(ports, place, new.location) if holder.owned_location is None else ():
        if found.ref not in heads:
            head = await ports.ledger.head(holder.id, found.ref)
            heads[found.ref] = None if head is None else head.version
        if found.version > (heads[found.ref] or 0):
            more.append(found)
    return Part(
        expects=(
            Live(holder.id),
            RevisionIs(holder.id, holder.revision),
            *(HeadIs(holder.id, ref, heads[ref]) for ref in dict.fromkeys(each.ref for each in more)),
        ),
        changes=(
            Update(id=holder.id, doc=replace(holder.doc, properties=new.properties)),
            *(_commit(holder.id, each) for each in more),
        ),
        done=Done(ids=(holder.id,)),
        before=holder,
    )


async def _creation(ports: Ports, caller: Caller, new: Registration, above: Chain) -> Part:
    place = registered_location(ports.roots, new.location, field="location")
    versions = await _versions(ports, place, new.location)
    id, parent, address = fresh.securable_id(), above[-1].id, new.address
    create = Create(
        id=id,
        kind=Kind.TABLE,
        parent=parent,
        name=address.path[-1],
        owner=caller.id,
        doc=Doc(properties=new.properties, location=place, table=TableDoc(format=LANCE, managed=False)),
        place=place,
    )
    return Part(
        expects=(Live(parent), NameFree(parent, address.shelf, address.key), LocationFree(place)),
        changes=(create, *(_commit(id, each) for each in versions)),
        done=Done(ids=(id,)),
    )


def _commit(id: SecurableId, found: Found) -> Commit:
    return Commit(
        table=id,
        ref=found.ref,
        version=found.version,
        operation=VersionKind.CHANGE,
        file=found.file.path,
        size=found.file.size,
        timestamp_ms=found.file.modified_ms,
        details={"scheme": found.scheme.value},
    )


async def _versions(ports: Ports, place: str, location: str) -> list[Found]:
    """The versions to take in, each line in its order. The newest manifest of each is really one."""
    lines = {MAIN: await manifests_in(ports, place, MAIN)}
    if not lines[MAIN]:
        raise InvalidInput(f"location: there is no Lance dataset at {location!r}", field="location")
    for listed in await ports.storage.list(place, BRANCHES):
        if (branch := ref_name(BRANCHES, listed.path)) is not None:
            lines[branch] = await manifests_in(ports, place, branch)
    newest = [line[-1] for line in lines.values() if line]
    if len(newest) > MOST_VERSIONS:
        raise InvalidInput(f"location: the dataset has more than {MOST_VERSIONS} branches", field="location")
    for each in newest:
        data = await ports.storage.read(place, each.file.path, limit=LARGEST_MANIFEST)
        require_manifest(data or b"", each.file.path, field="location")
    older = [each for line in lines.values() for each in line[-2::-1]]
    return sorted((newest + older)[:MOST_VERSIONS], key=lambda each: (each.ref, each.version))
