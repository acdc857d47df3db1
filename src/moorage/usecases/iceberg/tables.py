"""Iceberg tables: create, stage, register, unregister and drop."""

from __future__ import annotations

from functools import partial

import msgspec
from msgspec.structs import replace

from moorage import fresh
from moorage.access.port import require
from moorage.core.callers import Caller
from moorage.core.entries import Create, Done, Drop, HeadIs, Live, LocationFree, NameFree, RevisionIs, Update
from moorage.core.errors import InvalidInput
from moorage.core.ids import SecurableId
from moorage.core.locations import assigned_location, external_location, parse_location, registered_location
from moorage.core.names import require_name
from moorage.core.privileges import Privilege
from moorage.core.securables import MAIN, Doc, Kind, Securable, TableDoc, release_files, request_purge
from moorage.core.versions import VersionKind
from moorage.formats.iceberg.columns import columns_of
from moorage.formats.iceberg.documents import Document
from moorage.formats.iceberg.table_metadata import new_table, parse_table
from moorage.usecases.catalog.addresses import Address, Chain, reach_parent
from moorage.usecases.catalog.locations import require_choice, require_reachable
from moorage.usecases.catalog.staging import creation_in, prepare_staging_table
from moorage.usecases.iceberg.lookup import ICEBERG, find_relation, is_iceberg, name_taken, require_head
from moorage.usecases.iceberg.metadata_files import Metadata, load_metadata, new_metadata, read_metadata
from moorage.usecases.iceberg.relations import (
    Loaded,
    chosen_location,
    load_settled,
    require_free_name,
    version_commit,
)
from moorage.usecases.parts import NewFile, Part
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.settling.settle import settle, settle_one


class NewTable(msgspec.Struct, frozen=True, kw_only=True):
    """The table that a request creates."""

    address: Address
    schema: Document
    location: str | None = None
    spec: Document | None = None
    order: Document | None = None
    properties: dict[str, str] = {}


async def stage_table(ports: Ports, errand: Errand, new: NewTable) -> Document:
    """The metadata of a table that does not exist yet. Its client commits it together with its first rows.

    A location that the catalog assigns is reserved by a staging table: if no commit follows in time, it is purged with
    its files. A location that the request states is only checked, and checked again by the commit.
    """

    def metadata_at(id: SecurableId, location: str | None) -> Document:
        return _first_metadata(ports, new, id, (location or "").rstrip("/"))

    async def prepare(caller: Caller) -> Part:
        above = await require_free_name(ports, caller, new.address)
        part = prepare_staging_table(ports, caller, above, new.address.path[-1])
        staged = creation_in(part.changes)
        metadata_at(staged.id, staged.place)  # an invalid request is refused before a location is reserved
        return part

    async def prepare_at(location: str, caller: Caller) -> Part:
        await require_free_name(ports, caller, new.address)
        await require_reachable(ports, external_location(ports.roots, location, field="location"))
        id = fresh.securable_id()
        metadata_at(id, location)
        return Part(done=Done(ids=(id,)))  # changes nothing, but a retry under its key gets the same id

    if new.location is None:
        staged = await settle_one(ports, errand, prepare)
        return metadata_at(staged.id, staged.doc.location)
    settled = await settle(ports, errand, partial(prepare_at, new.location))
    return metadata_at(SecurableId(settled.done.ids[0]), new.location)


async def create_table(ports: Ports, errand: Errand, new: NewTable) -> Loaded:
    """Create a table without rows."""

    async def prepare(caller: Caller) -> Part:
        above = await require_free_name(ports, caller, new.address)
        id = fresh.securable_id()
        doc = _first_metadata(ports, new, id, chosen_location(ports, new.location, above, "tables", id))
        return await prepare_creation(ports, caller, new.address, above, id, doc)

    return await load_settled(ports, await settle(ports, errand, prepare))


def _first_metadata(ports: Ports, new: NewTable, id: SecurableId, location: str) -> Document:
    return new_table(
        uuid=id,
        location=location,
        schema=new.schema,
        spec=new.spec,
        order=new.order,
        properties=new.properties,
        now_ms=ports.now_ms(),
    )


async def prepare_creation(
    ports: Ports, caller: Caller, address: Address, above: Chain, id: SecurableId, doc: Document
) -> Part:
    """The part that creates a table with its first metadata."""
    location = parse_location(doc["location"], field="location")
    managed = location == assigned_location(ports.roots, above, "tables", id)
    metadata, file = await new_metadata(doc, 0)
    return _creation_part(caller, address, above[-1].id, id, location, metadata, file, managed=managed)


def _creation_part(
    caller: Caller,
    address: Address,
    parent: SecurableId,
    id: SecurableId,
    location: str,
    metadata: Metadata,
    *files: NewFile,
    managed: bool,
) -> Part:
    table = TableDoc(format=ICEBERG, managed=managed)
    create = Create(
        id=id,
        kind=Kind.TABLE,
        parent=parent,
        name=address.path[-1],
        owner=caller.id,
        doc=doc_from_metadata(Doc(location=location, table=table), metadata.doc),
        place=location,
    )
    return Part(
        expects=(Live(parent), NameFree(parent, address.shelf, address.key), LocationFree(location, anew=bool(files))),
        changes=(
            create,
            version_commit(id, 0, metadata, kind=VersionKind.METADATA, at_ms=metadata.doc["last-updated-ms"]),
        ),
        attachments=metadata.attachment(id, 0),
        files=files,
        done=Done(ids=(id,), versions=(0,)),
        result=metadata,
    )


def doc_from_metadata(doc: Doc, metadata: Document) -> Doc:
    """The record of a table with the columns, comment and properties of its metadata."""
    table = replace(doc.table or TableDoc(format=ICEBERG), columns=columns_of(metadata))
    return replace(doc_with_properties(doc, metadata), table=table)


def doc_with_properties(doc: Doc, metadata: Document) -> Doc:
    """The record of a table with the comment and properties of its metadata; its columns did not change."""
    properties = metadata["properties"]
    return replace(doc, comment=properties.get("comment"), properties=properties)


async def register_table(ports: Ports, errand: Errand, address: Address, location: str, *, overwrite: bool) -> Loaded:
    """Create a table from a metadata file that another catalog wrote. The catalog does not own its files."""

    async def prepare(caller: Caller) -> Part:
        require_name(address.path[-1], "name")
        above, holder = await reach_parent(ports, caller, address)
        if holder is not None and not (overwrite and is_iceberg(holder) and holder.head is not None):
            raise name_taken(address, holder)
        if holder is not None:
            require(ports.access, caller, Privilege.MANAGE, (*above, holder))
        folder = parse_location(location.rpartition("/")[0], field="metadata-location")
        if holder is None or not folder.startswith(holder.locations):
            await require_choice(ports, caller, folder)
        metadata = await read_metadata(ports, location, parse_table)
        if metadata is None:
            raise InvalidInput(f"there is no metadata file at {location!r}", field="metadata-location")
        if holder is None:
            root = registered_location(ports.roots, metadata.doc["location"])
            await require_reachable(ports, root)
            id = fresh.securable_id()
            return _creation_part(caller, address, above[-1].id, id, root, metadata, managed=False)
        return _overwrite_part(ports, holder, metadata)

    return await load_settled(ports, await settle(ports, errand, prepare))


def _overwrite_part(ports: Ports, table: Securable, metadata: Metadata) -> Part:
    """The part that makes the file the next version of the table, if it describes a table at the same location."""
    location = registered_location(ports.roots, metadata.doc["location"])
    if location != table.doc.location:
        raise InvalidInput(
            f"the metadata file describes a table at '{location}', but '{table.name}' is at '{table.doc.location}'; "
            f"drop '{table.name}' first",
            field="metadata-location",
        )
    version = require_head(table).version + 1
    return Part(
        expects=(HeadIs(table.id, MAIN, version - 1), RevisionIs(table.id, table.revision)),
        changes=(
            version_commit(table.id, version, metadata, kind=VersionKind.CHANGE, at_ms=metadata.doc["last-updated-ms"]),
            Update(id=table.id, doc=doc_from_metadata(table.doc, metadata.doc)),
        ),
        attachments=metadata.attachment(table.id, version),
        done=Done(ids=(table.id,), versions=(version,)),
        result=metadata,
    )


async def drop_table(ports: Ports, errand: Errand, address: Address, *, purge: bool) -> Securable:
    """Free the name. Files are deleted only if `purge` requests it.

    Without it the catalog releases the files, so that they can be registered again. With it they are deleted after the
    hold; in a location that the owner chose, only those that the metadata names.
    """
    return await settle_one(ports, errand, lambda caller: _prepare_drop(ports, caller, address, purge=purge))


async def _prepare_drop(ports: Ports, caller: Caller, address: Address, *, purge: bool) -> Part:
    table = (await find_relation(ports, caller, address, Privilege.MANAGE))[-1]
    record = request_purge(table.doc) if purge else release_files(table.doc)
    return Part(
        expects=(Live(table.id), RevisionIs(table.id, table.revision)),
        changes=(
            Update(id=table.id, doc=record),
            Drop(id=table.id, hold_ms=ports.hold_ms),
        ),
        done=Done(ids=(table.id,)),
        before=table,
    )


async def unregister_table(ports: Ports, errand: Errand, address: Address) -> Loaded:
    """Release a table with all its files, so that another catalog can register it. Returns its last metadata."""

    async def prepare(caller: Caller) -> Part:
        part = await _prepare_drop(ports, caller, address, purge=False)
        if part.before is None:
            raise TypeError("a drop without an object")
        version = require_head(part.before).version
        return Part(
            # The head too: the catalog that registers the table next would not see a commit in between.
            expects=(*part.expects, HeadIs(part.before.id, MAIN, version)),
            changes=part.changes,
            done=Done(ids=part.done.ids, versions=(version,)),
            result=await load_metadata(ports, part.before),
        )

    return await load_settled(ports, await settle(ports, errand, prepare))
