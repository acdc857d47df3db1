"""What Iceberg tables and views have in common: loaded, listed, placed, renamed."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from moorage.core.callers import Caller
from moorage.core.entries import Commit, Done, HeadIs
from moorage.core.errors import AlreadyPurged, NameTaken
from moorage.core.ids import SecurableId
from moorage.core.locations import assigned_location, external_location, parse_location
from moorage.core.names import require_name
from moorage.core.privileges import Privilege
from moorage.core.securables import MAIN, Kind, Securable, Shelf
from moorage.formats.iceberg.documents import Document
from moorage.usecases.catalog import objects
from moorage.usecases.catalog.addresses import Address, Chain, look_parent, reach_parent
from moorage.usecases.catalog.browse import Page, pages
from moorage.usecases.catalog.locations import require_reachable
from moorage.usecases.iceberg.lookup import find_relation, head_of, is_seen, projection_of, shown, taken
from moorage.usecases.iceberg.metadata_files import (
    Metadata,
    Version,
    cache_metadata,
    metadata_of,
    require_file,
    version_shown,
)
from moorage.usecases.parts import Part
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.settling.settle import Settled, settle_one


class Loaded(msgspec.Struct, frozen=True):
    """A table or view at one version, with its metadata."""

    id: SecurableId
    version: Version
    metadata: Metadata


async def load(ports: Ports, caller: Caller, address: Address) -> Loaded:
    """The table or view as it is now."""
    return await load_found(ports, (await find_relation(ports, caller, address, Privilege.READ))[-1])


async def load_found(ports: Ports, relation: Securable) -> Loaded:
    """The same for one that was found, and may be read."""
    loaded = await _loaded(ports, relation)
    await require_file(ports, loaded.metadata.location)
    return loaded


async def require_relation(ports: Ports, caller: Caller, address: Address) -> Chain:
    """The table or view with its ancestors, or TableNotFound or ViewNotFound."""
    return await find_relation(ports, caller, address, Privilege.BROWSE)


async def _loaded(ports: Ports, table: Securable) -> Loaded:
    return Loaded(table.id, version_shown(table, projection_of(ports, table)), await metadata_of(ports, table))


def unchanged(relation: Securable, metadata: Metadata) -> Part:
    """The part of a commit that changes nothing: it makes no version, but its requirements must hold."""
    version = head_of(relation).version
    return Part(
        expects=(HeadIs(relation.id, MAIN, version),),
        done=Done(ids=(relation.id,), versions=(version,)),
        before=relation,
        result=metadata,
    )


def cache_settled(ports: Ports, settled: Settled) -> Loaded | None:
    """The result of a change of one table, which the next change needs; None for a replay.

    The result of such a part is the metadata of the version at which it leaves the table.
    """
    if not settled.parts:
        return None
    part = settled.parts[0]
    loaded = Loaded(SecurableId(part.done.ids[0]), part.done.versions[0], part.result)
    cache_metadata(ports, loaded.id, loaded.version, loaded.metadata)
    return loaded


async def load_settled(ports: Ports, settled: Settled) -> Loaded:
    """What a change of one table made of it; if the change was made before, the table as it is now."""
    if (loaded := cache_settled(ports, settled)) is not None:
        return loaded
    chain = (await ports.ledger.lineage(SecurableId(settled.done.ids[0]))).chain
    if not chain:
        raise AlreadyPurged("this request was carried out before, and its table has been purged since")
    return await _loaded(ports, chain[-1])


async def list_relations(
    ports: Ports, caller: Caller, space: Address, *, kind: Kind, token: str | None, limit: int
) -> Page:
    """Tables or views of a namespace that Iceberg's clients see, page by page; without a token all of them at once."""
    items: list[Securable] = []
    async for found in pages(ports, caller, space, Shelf.RELATION, kinds=(kind,), token=token, limit=limit):
        items += [item for item in found.items if is_seen(ports, item)]
    return replace(found, items=tuple(items))


async def require_room(ports: Ports, caller: Caller, address: Address) -> Chain:
    """The ancestors of a name that is free."""
    require_name(address.path[-1], "name")
    above, holder = await reach_parent(ports, caller, address)
    if holder is not None:
        raise taken(address, holder)
    return above


def chosen_location(ports: Ports, asked: str | None, above: Chain, shelf: str, id: SecurableId) -> str:
    """Where the request wants it, or a place of ours."""
    if asked is None:
        return assigned_location(ports.roots, above, shelf, id).rstrip("/")
    external_location(ports.roots, asked, field="location")
    return asked.rstrip("/")


async def moved_place(ports: Ports, chain: Chain, shelf: str, doc: Document) -> str | None:
    """The place of a new location, which this server can reach; None if it is where it was.

    That nobody else holds it is for the append to say. Where it was before stays its own: its files lie there.
    """
    relation = chain[-1]
    place = parse_location(doc["location"], field="location")
    if place == relation.doc.location:
        return None
    if place != assigned_location(ports.roots, chain[:-1], shelf, relation.id):
        external_location(ports.roots, doc["location"], field="location")
        await require_reachable(ports, place)
    return place


def version_of(id: SecurableId, version: int, metadata: Metadata, *, kind: str, at_ms: int) -> Commit:
    """The version of a table or view that its metadata file is."""
    current = metadata.doc.get("current-snapshot-id")
    return Commit(
        table=id,
        version=version,
        operation=kind,
        file=metadata.location,
        size=len(metadata.answer),
        timestamp_ms=at_ms,
        details={} if current is None else {"snapshot_id": current},
    )


async def rename(ports: Ports, errand: Errand, address: Address, to: Address) -> Securable:
    """Give a table or view another name, in this namespace or another one of the catalog. No file moves."""
    return await settle_one(ports, errand, lambda caller: _prepare_rename(ports, caller, address, to))


async def _prepare_rename(ports: Ports, caller: Caller, address: Address, to: Address) -> Part:
    renamed = (await find_relation(ports, caller, address, Privilege.MANAGE))[-1]
    _, holder = await look_parent(ports.ledger, to)
    # Its own name is free for it in capital letters, but not as it is.
    if holder is not None and (holder.id != renamed.id or holder.name == to.path[-1]):
        found = str(holder.kind).capitalize()
        raise NameTaken(f"Cannot rename {shown(address)} to {shown(to)}. {found} already exists", field="destination")
    return await objects.prepare_rename(ports, caller, address, to, field="destination")
