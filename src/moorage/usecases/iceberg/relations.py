"""Operations that Iceberg tables and views share: load, list, choose a location, rename."""

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
from moorage.usecases.catalog.addresses import Address, Chain, reach_destination, reach_parent
from moorage.usecases.catalog.browse import Page, pages
from moorage.usecases.catalog.locations import require_reachable
from moorage.usecases.iceberg.lookup import (
    SNAPSHOT,
    find_relation,
    iceberg_name,
    is_iceberg,
    is_visible,
    name_taken,
    require_head,
)
from moorage.usecases.iceberg.metadata_files import (
    Metadata,
    Version,
    cache_metadata,
    load_metadata,
    load_projected,
    require_metadata_file,
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
    """The table or view at its current version."""
    chain = await find_relation(ports, caller, address, Privilege.READ, since=caller.seq)
    return await load_found(ports, chain[-1])


async def load_found(ports: Ports, relation: Securable) -> Loaded:
    """The same for a table or view that was looked up already, and that the caller may read."""
    loaded = await _loaded(ports, relation)
    await require_metadata_file(ports, loaded.metadata.location)
    return loaded


async def require_relation(ports: Ports, caller: Caller, address: Address) -> Chain:
    """The table or view with its ancestors, or TableNotFound or ViewNotFound."""
    return await find_relation(ports, caller, address, Privilege.BROWSE)


async def _loaded(ports: Ports, table: Securable) -> Loaded:
    if is_iceberg(table):
        return Loaded(table.id, require_head(table).version, await load_metadata(ports, table))
    projection = await ports.formats.project(ports, table)
    return Loaded(table.id, projection.change_tag, await load_projected(ports, table, projection))


def unchanged_part(relation: Securable, metadata: Metadata) -> Part:
    """The part of a commit that changes nothing. It makes no version, but its requirements must hold."""
    version = require_head(relation).version
    return Part(
        expects=(HeadIs(relation.id, MAIN, version),),
        done=Done(ids=(relation.id,), versions=(version,)),
        before=relation,
        result=metadata,
    )


def cache_settled(ports: Ports, settled: Settled) -> Loaded | None:
    """Cache and return the result of a change to one table, which the next change needs. None for a replay.

    The `result` of such a part is the metadata of the version that the change made.
    """
    if not settled.parts:
        return None
    part = settled.parts[0]
    loaded = Loaded(SecurableId(part.done.ids[0]), part.done.versions[0], part.result)
    cache_metadata(ports, loaded.id, loaded.version, loaded.metadata)
    return loaded


async def load_settled(ports: Ports, settled: Settled) -> Loaded:
    """The result of a change to one table; for a replay, the table at its current version."""
    if (loaded := cache_settled(ports, settled)) is not None:
        return loaded
    chain = (await ports.ledger.lineage(SecurableId(settled.done.ids[0]))).chain
    if not chain:
        raise AlreadyPurged("this request was carried out before, and its table was purged since")
    return await _loaded(ports, chain[-1])


async def list_relations(
    ports: Ports, caller: Caller, namespace: Address, *, kind: Kind, token: str | None, limit: int
) -> Page:
    """One page of the tables or views of a namespace that Iceberg clients see; without a token, all of them."""
    items: list[Securable] = []
    async for found in pages(ports, caller, namespace, Shelf.RELATION, kinds=(kind,), token=token, limit=limit):
        items += [item for item in found.items if is_visible(ports, item, found.above)]
    return replace(found, items=tuple(items))


async def require_free_name(ports: Ports, caller: Caller, address: Address) -> Chain:
    """The ancestors of a free name, or NameTaken."""
    require_name(address.path[-1], "name")
    above, holder = await reach_parent(ports, caller, address)
    if holder is not None:
        raise name_taken(address, holder)
    return above


def chosen_location(ports: Ports, requested: str | None, above: Chain, shelf: str, id: SecurableId) -> str:
    """The location that the request asks for, or else one that the catalog assigns."""
    if requested is None:
        return assigned_location(ports.roots, above, shelf, id).rstrip("/")
    external_location(ports.roots, requested, field="location")
    return requested.rstrip("/")


async def changed_location(ports: Ports, chain: Chain, shelf: str, doc: Document) -> str | None:
    """The new location, which this server must be able to reach. None if it did not change.

    The append checks that no other object owns it. The former location still belongs to the table, because its files
    are stored there.
    """
    relation = chain[-1]
    location = parse_location(doc["location"], field="location")
    if location == relation.doc.location:
        return None
    if location != assigned_location(ports.roots, chain[:-1], shelf, relation.id):
        external_location(ports.roots, doc["location"], field="location")
        await require_reachable(ports, location)
    return location


def version_commit(id: SecurableId, version: int, metadata: Metadata, *, kind: str, at_ms: int) -> Commit:
    """The commit that records a metadata file as a version of a table or view."""
    current = metadata.doc.get("current-snapshot-id")
    return Commit(
        table=id,
        version=version,
        operation=kind,
        file=metadata.location,
        size=len(metadata.answer),
        timestamp_ms=at_ms,
        details={} if current is None else {SNAPSHOT: current},
    )


async def rename_relation(ports: Ports, errand: Errand, address: Address, to: Address) -> Securable:
    """Give a table or view another name, in this namespace or another one of the catalog. No file moves."""
    return await settle_one(ports, errand, lambda caller: _prepare_rename(ports, caller, address, to))


async def _prepare_rename(ports: Ports, caller: Caller, address: Address, to: Address) -> Part:
    renamed = (await find_relation(ports, caller, address, Privilege.MANAGE))[-1]
    _, holder = await reach_destination(ports, caller, to, renamed.parent)
    # A table may change the capitalisation of its name, but not take the same name again.
    if holder is not None and (holder.id != renamed.id or holder.name == to.path[-1]):
        found = str(holder.kind).capitalize()
        raise NameTaken(
            f"Cannot rename {iceberg_name(address)} to {iceberg_name(to)}. {found} already exists", field="destination"
        )
    return await objects.prepare_rename(ports, caller, address, to, field="destination")
