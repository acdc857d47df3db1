"""Registering existing Lance datasets as tables. The versions are read from the manifests in the folder."""

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
from moorage.usecases.catalog.locations import require_choice
from moorage.usecases.lance.lookup import LANCE, is_lance, name_taken_error
from moorage.usecases.lance.manifests import MAX_MANIFEST_BYTES, FoundManifest, list_manifests
from moorage.usecases.lance.tables import drop_table_part, find_holder
from moorage.usecases.parts import Part
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.settling.settle import settle_one

MAX_VERSIONS = 900
"""The maximum number of versions to register, the newest of each line first: all must fit in one entry."""


class Registration(msgspec.Struct, frozen=True, kw_only=True):
    """A request to register a dataset."""

    address: Address
    location: str
    properties: dict[str, str]
    overwrite: bool


async def register_table(ports: Ports, errand: Errand, new: Registration) -> Securable:
    """Create a table from an existing dataset. The catalog does not own its files."""

    async def prepare(caller: Caller) -> Part:
        above, holder = await find_holder(ports, caller, new.address)
        if holder is None:
            return await _create_part(ports, caller, new, above)
        if not (new.overwrite and is_lance(holder)):
            raise name_taken_error(new.address, holder)
        require(ports.access, caller, Privilege.MANAGE, (*above, holder))
        return await _overwrite_part(ports, caller, new, above, holder)

    return await settle_one(ports, errand, prepare)


async def _overwrite_part(ports: Ports, caller: Caller, new: Registration, above: Chain, holder: Securable) -> Part:
    """Replace the table that has the name and keep its files; a table at the same location is refreshed instead."""
    location = registered_location(ports.roots, new.location, field="location")
    if location == holder.doc.location:
        return await _refresh_part(ports, new, holder, location)
    dropped = drop_table_part(ports, holder, keep_files=True)
    part = await _create_part(ports, caller, new, above)
    # The creation is first, because the response shows the first change.
    return replace(part, expects=(*dropped.expects, *part.expects), changes=(*part.changes, *dropped.changes))


async def _refresh_part(ports: Ports, new: Registration, holder: Securable, location: str) -> Part:
    """Set the properties of the table, and add the versions that were written to its dataset without the catalog.

    A managed table gets no versions this way: there such manifests are unratified.
    """
    heads, more = dict[str, int | None](), list[FoundManifest]()
    for found in await _find_versions(ports, location, new.location) if holder.owned_location is None else ():
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
            *(_to_commit(holder.id, each) for each in more),
        ),
        done=Done(ids=(holder.id,)),
        before=holder,
    )


async def _create_part(ports: Ports, caller: Caller, new: Registration, above: Chain) -> Part:
    location = registered_location(ports.roots, new.location, field="location")
    await require_choice(ports, caller, location)
    versions = await _find_versions(ports, location, new.location)
    id, parent, address = fresh.securable_id(), above[-1].id, new.address
    create = Create(
        id=id,
        kind=Kind.TABLE,
        parent=parent,
        name=address.path[-1],
        owner=caller.id,
        doc=Doc(properties=new.properties, location=location, table=TableDoc(format=LANCE, managed=False)),
        place=location,
    )
    return Part(
        expects=(Live(parent), NameFree(parent, address.shelf, address.key), LocationFree(location)),
        changes=(create, *(_to_commit(id, each) for each in versions)),
        done=Done(ids=(id,)),
    )


def _to_commit(id: SecurableId, found: FoundManifest) -> Commit:
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


async def _find_versions(ports: Ports, location: str, requested: str) -> list[FoundManifest]:
    """The versions to register, in order within each line. The newest manifest of each line is checked."""
    lines = {MAIN: await list_manifests(ports, location, MAIN)}
    if not lines[MAIN]:
        raise InvalidInput(f"location: there is no Lance dataset at {requested!r}", field="location")
    for listed in await ports.storage.list(location, BRANCHES):
        if (branch := ref_name(BRANCHES, listed.path)) is not None:
            lines[branch] = await list_manifests(ports, location, branch)
    newest = [line[-1] for line in lines.values() if line]
    if len(newest) > MAX_VERSIONS:
        raise InvalidInput(f"location: the dataset has more than {MAX_VERSIONS} branches", field="location")
    for each in newest:
        data = await ports.storage.read(location, each.file.path, limit=MAX_MANIFEST_BYTES)
        require_manifest(data or b"", each.file.path, field="location")
    older = [each for line in lines.values() for each in line[-2::-1]]
    return sorted((newest + older)[:MAX_VERSIONS], key=lambda each: (each.ref, each.version))
