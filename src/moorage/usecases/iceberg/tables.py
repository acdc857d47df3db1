"""Iceberg tables: created, staged, registered and dropped."""

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
from moorage.usecases.catalog.locations import require_reachable
from moorage.usecases.catalog.staging import creation_in, staging
from moorage.usecases.iceberg.lookup import ICEBERG, find_relation, head_of, is_iceberg, taken
from moorage.usecases.iceberg.metadata_files import Metadata, metadata_of, new_metadata, read_metadata
from moorage.usecases.iceberg.relations import (
    Loaded,
    chosen_location,
    load_settled,
    require_room,
    version_of,
)
from moorage.usecases.parts import NewFile, Part
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.settling.settle import settle, settle_one


class NewTable(msgspec.Struct, frozen=True, kw_only=True):
    """What a request says of the table that it creates."""

    address: Address
    schema: Document
    location: str | None = None
    spec: Document | None = None
    order: Document | None = None
    properties: dict[str, str] = {}


async def stage_table(ports: Ports, errand: Errand, new: NewTable) -> Document:
    """The metadata of a table that does not exist yet: its client commits it together with its first rows.

    A place of our own is remembered: what nobody commits in time is purged, with its files. One that the request
    brings is only looked at, and again by the commit.
    """

    def metadata_at(id: SecurableId, location: str | None) -> Document:
        return _first_metadata(ports, new, id, (location or "").rstrip("/"))

    async def prepare(caller: Caller) -> Part:
        above = await require_room(ports, caller, new.address)
        part = staging(ports, caller, above, new.address.path[-1])
        stage = creation_in(part.changes)
        metadata_at(stage.id, stage.place)  # what is wrong with the request is said before a place is given out
        return part

    async def prepare_at(location: str, caller: Caller) -> Part:
        await require_room(ports, caller, new.address)
        await require_reachable(ports, external_location(ports.roots, location, field="location"))
        id = fresh.securable_id()
        metadata_at(id, location)
        return Part(done=Done(ids=(id,)))  # nothing changes, but sent again under its key it hears the same id

    if new.location is None:
        stage = await settle_one(ports, errand, prepare)
        return metadata_at(stage.id, stage.doc.location)
    settled = await settle(ports, errand, partial(prepare_at, new.location))
    return metadata_at(SecurableId(settled.done.ids[0]), new.location)


async def create_table(ports: Ports, errand: Errand, new: NewTable) -> Loaded:
    """A new table without rows."""

    async def prepare(caller: Caller) -> Part:
        above = await require_room(ports, caller, new.address)
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
    """A table with its first metadata, in a place of its own."""
    place = parse_location(doc["location"], field="location")
    managed = place == assigned_location(ports.roots, above, "tables", id)
    metadata, file = await new_metadata(doc, 0)
    return _creation(caller, address, above[-1].id, id, place, metadata, file, managed=managed)


def _creation(
    caller: Caller,
    address: Address,
    parent: SecurableId,
    id: SecurableId,
    place: str,
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
        doc=described(Doc(location=place, table=table), metadata.doc),
        place=place,
    )
    return Part(
        expects=(Live(parent), NameFree(parent, address.shelf, address.key), LocationFree(place, anew=bool(files))),
        changes=(create, version_of(id, 0, metadata, kind=VersionKind.METADATA, at_ms=metadata.doc["last-updated-ms"])),
        attachments=metadata.attachment(id, 0),
        files=files,
        done=Done(ids=(id,), versions=(0,)),
        result=metadata,
    )


def described(doc: Doc, metadata: Document) -> Doc:
    """The record of a table, as its metadata describes it."""
    table = replace(doc.table or TableDoc(format=ICEBERG), columns=columns_of(metadata))
    return replace(commented(doc, metadata), table=table)


def commented(doc: Doc, metadata: Document) -> Doc:
    """The record of a table whose columns are the same as before."""
    properties = metadata["properties"]
    return replace(doc, comment=properties.get("comment"), properties=properties)


async def register_table(ports: Ports, errand: Errand, address: Address, location: str, *, overwrite: bool) -> Loaded:
    """A table from the metadata file that another catalog left behind. Its files stay its owner's."""

    async def prepare(caller: Caller) -> Part:
        require_name(address.path[-1], "name")
        above, holder = await reach_parent(ports, caller, address)
        if holder is not None and not (overwrite and is_iceberg(holder)):
            raise taken(address, holder)
        metadata = await read_metadata(ports, location, parse_table)
        if metadata is None:
            raise InvalidInput(f"there is no metadata file at {location!r}", field="metadata-location")
        if holder is None:
            place = registered_location(ports.roots, metadata.doc["location"])
            await require_reachable(ports, place)
            id = fresh.securable_id()
            return _creation(caller, address, above[-1].id, id, place, metadata, managed=False)
        require(ports.access, caller, Privilege.MANAGE, (*above, holder))
        return _overwriting(ports, holder, metadata)

    return await load_settled(ports, await settle(ports, errand, prepare))


def _overwriting(ports: Ports, table: Securable, metadata: Metadata) -> Part:
    """The file becomes the next version of the table that has the name, if it lies in the table's own place."""
    place = registered_location(ports.roots, metadata.doc["location"])
    if place != table.doc.location:
        raise InvalidInput(
            f"the metadata file describes a table at '{place}', but '{table.name}' is at '{table.doc.location}'; "
            "drop it first",
            field="metadata-location",
        )
    version = head_of(table).version + 1
    return Part(
        expects=(HeadIs(table.id, MAIN, version - 1), RevisionIs(table.id, table.revision)),
        changes=(
            version_of(table.id, version, metadata, kind=VersionKind.CHANGE, at_ms=metadata.doc["last-updated-ms"]),
            Update(id=table.id, doc=described(table.doc, metadata.doc)),
        ),
        attachments=metadata.attachment(table.id, version),
        done=Done(ids=(table.id,), versions=(version,)),
        result=metadata,
    )


async def drop_table(ports: Ports, errand: Errand, address: Address, *, purge: bool) -> Securable:
    """Free the name. Files are deleted only if `purge` requests it.

    Without it the catalog releases the files, so that they can be registered again. With it they are deleted after
    the hold; in a location that their owner chose, only those that the metadata names.
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
    """Let a table go with all its files, so that another catalog can take it in; its last metadata."""

    async def prepare(caller: Caller) -> Part:
        part = await _prepare_drop(ports, caller, address, purge=False)
        if part.before is None:
            raise TypeError("a drop without an object")
        version = head_of(part.before).version
        return Part(
            # The head too: a commit in between would be lost to the catalog that registers the table next.
            expects=(*part.expects, HeadIs(part.before.id, MAIN, version)),
            changes=part.changes,
            done=Done(ids=part.done.ids, versions=(version,)),
            result=await metadata_of(ports, part.before),
        )

    return await load_settled(ports, await settle(ports, errand, prepare))
