"""Create, change and delete external locations: folders in object stores, each with the credential that opens it."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from moorage import fresh
from moorage.access.port import require, require_in_area
from moorage.core.callers import Caller
from moorage.core.entries import Create, Done, Drop, Live, NameFree
from moorage.core.errors import InvalidInput, NameTaken, NotEmpty, PlaceTaken
from moorage.core.privileges import Privilege
from moorage.core.revisions import Revision
from moorage.core.securables import Kind, Securable, Shelf
from moorage.core.storage_credentials import LocationDetails, location_of, require_location_url, require_opens, to_doc
from moorage.usecases.catalog.addresses import Address, find_by_id, find_parent, reach
from moorage.usecases.catalog.objects import prepare_drop
from moorage.usecases.catalog.revisions import revise_found
from moorage.usecases.catalog.walks import children
from moorage.usecases.parts import Part
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.settling.settle import settle_one
from moorage.usecases.storage.storage_credentials import credential


class GivenLocation(msgspec.Struct, frozen=True, kw_only=True):
    """What a request states about an external location. None keeps the current value."""

    url: str | None = None
    credential: str | None = None
    """The name of the credential."""
    is_checked: bool = True
    """Whether the folder is listed with the credential before anything is recorded."""


def external_location(name: str) -> Address:
    return Address(Kind.EXTERNAL_LOCATION, (name,))


async def create_location(
    ports: Ports, errand: Errand, name: str, given: GivenLocation, comment: str | None
) -> Securable:
    """Create an external location. From now on its credential opens the folder and all tables in it.

    The privilege is that on the credential: a caller that holds it on the metastore may use every credential.
    """

    async def prepare(caller: Caller) -> Part:
        details = await _chosen(ports, caller, LocationDetails(url="", credential=ports.ledger.root), given)
        address, root = external_location(name), ports.ledger.root
        _, holder = await find_parent(ports.ledger, address)
        if holder is not None:
            raise NameTaken(f"{holder.kind} '{name}' already exists", field="name", name=name, kind=str(holder.kind))
        id = fresh.securable_id()
        doc = to_doc(details, comment)
        return Part(
            expects=(NameFree(root, address.shelf, address.key), Live(details.credential)),
            changes=(Create(id=id, kind=address.kind, parent=root, name=name, owner=caller.id, doc=doc),),
            done=Done(ids=(id,)),
        )

    return await settle_one(ports, errand, prepare)


async def change_location(
    ports: Ports, errand: Errand, name: str, revision: Revision, given: GivenLocation
) -> Securable:
    """Change an external location. Its folder can change while no object has files in it."""

    async def prepare(caller: Caller) -> Part:
        chain = await reach(ports, caller, external_location(name), Privilege.MODIFY)
        before = location_of(chain[-1])
        if given.url is None and given.credential is None:
            return await revise_found(ports, caller, chain, revision)
        if given.url is not None and require_location_url(given.url) != before.url:
            await _require_unused(ports, chain[-1])
        chosen = await _chosen(ports, caller, before, given)
        details = msgspec.to_builtins(chosen)
        part = await revise_found(ports, caller, chain, replace(revision, details=details))
        return replace(part, expects=(*part.expects, Live(chosen.credential))) if part.changes else part

    return await settle_one(ports, errand, prepare)


async def _chosen(ports: Ports, caller: Caller, before: LocationDetails, given: GivenLocation) -> LocationDetails:
    """The record of a location that the caller may create with the credential, and that the credential opens."""
    url = before.url if given.url is None else require_location_url(given.url)
    if given.credential is None:
        chain = await find_by_id(ports.ledger, before.credential)
        if not chain:
            raise InvalidInput("its credential was deleted; state another one", field="credential_name")
        if url != before.url:  # the credential may open folders that the caller may not use
            require(ports.access, caller, Privilege.CREATE_EXTERNAL_LOCATION, chain)
    else:
        chain = await reach(ports, caller, credential(given.credential), Privilege.CREATE_EXTERNAL_LOCATION)
    opener = chain[-1]
    require_opens(opener, url)
    if url != before.url:
        await _require_own_folder(ports, caller, url)
    if given.is_checked:
        await ports.stores.require_usable(url, opener)
    return LocationDetails(url=url, credential=opener.id)


async def _require_own_folder(ports: Ports, caller: Caller, url: str) -> None:
    async for each in children(ports, ports.ledger.root, Shelf.EXTERNAL_LOCATION):
        if location_of(each).url == url:
            raise PlaceTaken(f"external location '{each.name}' already has the folder '{url}'", field="url")
    area = await ports.stores.area_of(url)
    if area:
        # Tables to come may have their root in the folder: the new credential would decide in which store they are.
        require_in_area(ports.access, caller, Privilege.MANAGE, area)
    if (
        await ports.ledger.location_holder(url) is not None
        or ports.roots.contain(url)
        or ports.roots.are_inside(url)
        or await _meets_settings(ports, url)
    ):
        # The credential would open the files of existing objects, and the server would write them with it.
        require(ports.access, caller, Privilege.MANAGE, ())


async def _meets_settings(ports: Ports, url: str) -> bool:
    """Whether the folder is inside or around one that the store of the settings opens."""
    for each in await ports.stores.locations():
        if (each.startswith(url) or url.startswith(each)) and not await ports.stores.area_of(each):
            return True
    return False


async def _require_unused(ports: Ports, location: Securable) -> None:
    holder = await ports.ledger.location_holder(location_of(location).url)
    if holder is None:
        return
    chain = (await ports.ledger.lineage(holder)).chain
    what = f"{chain[-1].kind} '{'.'.join(part.name for part in chain)}'" if chain else "an object"
    raise NotEmpty(f"{what} has files in external location '{location.name}'", name=location.name)


async def delete_location(ports: Ports, errand: Errand, name: str, *, force: bool) -> Securable:
    """Delete an external location. `force`: also if objects have files in it, which then cannot be used."""

    async def prepare(caller: Caller) -> Part:
        part = await prepare_drop(ports, caller, external_location(name))
        if part.before is None:
            raise InvalidInput(f"external location '{name}' cannot be deleted", field="name")
        if not force:
            await _require_unused(ports, part.before)
        return replace(part, changes=(Drop(id=part.before.id, hold_ms=0),))

    return await settle_one(ports, errand, prepare)


async def credential_names(ports: Ports, locations: tuple[Securable, ...]) -> dict[str, str]:
    """The names of the credentials of locations, by their ids. A deleted one is absent."""
    found: dict[str, str] = {}
    for id in {location_of(each).credential for each in locations}:
        chain = await find_by_id(ports.ledger, id)
        if chain:
            found[id] = chain[-1].name
    return found
