"""Iceberg tables: created, staged, registered, loaded, listed, renamed and dropped."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from moorage import fresh
from moorage.access.port import require
from moorage.core.callers import Caller
from moorage.core.entries import Commit, Create, Done, Drop, HeadIs, Live, NameFree, PlaceFree, RevisionIs, Update
from moorage.core.errors import AlreadyPurged, InvalidInput, NameTaken
from moorage.core.ids import SecurableId
from moorage.core.names import require_name
from moorage.core.places import above as places_above
from moorage.core.privileges import Privilege
from moorage.core.securables import MAIN, Doc, Kind, Securable, Shelf, TableDoc
from moorage.formats.iceberg.columns import columns_of
from moorage.formats.iceberg.documents import Document
from moorage.formats.iceberg.table_metadata import new_table
from moorage.usecases import trunk
from moorage.usecases.addresses import Address, find_parent
from moorage.usecases.browse import Page, page
from moorage.usecases.iceberg_files import (
    Metadata,
    WrittenFiles,
    metadata_of,
    read_metadata,
    remember,
    require_file,
)
from moorage.usecases.iceberg_found import ICEBERG, Chain, find_table, head_of, is_iceberg, shown, taken
from moorage.usecases.paging import LARGEST_PAGE
from moorage.usecases.places import brought_place, given_place, parse_place, require_reachable
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.settle import Part, Settled, settle


class NewTable(msgspec.Struct, frozen=True, kw_only=True):
    """What a request says of the table that it creates."""

    address: Address
    schema: Document
    location: str | None = None
    spec: Document | None = None
    order: Document | None = None
    properties: dict[str, str] = {}


class Loaded(msgspec.Struct, frozen=True):
    """A table at one version, with its metadata."""

    id: SecurableId
    version: int
    metadata: Metadata


async def load_table(ports: Ports, caller: Caller, address: Address) -> Loaded:
    """The table as it is now."""
    loaded = await _loaded(ports, (await find_table(ports, caller, address, Privilege.READ))[-1])
    await require_file(ports, loaded.metadata.location)
    return loaded


async def require_table(ports: Ports, caller: Caller, address: Address) -> Chain:
    """The table with its ancestors, or TableNotFound."""
    return await find_table(ports, caller, address, Privilege.BROWSE)


async def _loaded(ports: Ports, table: Securable) -> Loaded:
    return Loaded(table.id, head_of(table).version, await metadata_of(ports, table))


async def load_settled(ports: Ports, settled: Settled, written: Metadata | None) -> Loaded:
    """What a change of one table made of it; if the change was made before, the table as it is now."""
    if settled.parts and written is not None:
        id, version = SecurableId(settled.done.ids[0]), settled.done.versions[0]
        remember(id, version, written)
        return Loaded(id, version, written)
    chain = (await ports.ledger.lineage(SecurableId(settled.done.ids[0]))).chain
    if not chain:
        raise AlreadyPurged("this request was carried out before, and its table has been purged since")
    return await _loaded(ports, chain[-1])


async def list_tables(
    ports: Ports, caller: Caller, space: Address, *, kind: Kind, token: str | None, limit: int
) -> Page:
    """Iceberg tables or views of a namespace, page by page; without a token all of them at once."""
    whole = token is None
    items: list[Securable] = []
    while True:
        found = await page(
            ports,
            caller,
            space,
            Shelf.RELATION,
            kinds=(kind,),
            token=token,
            limit=LARGEST_PAGE if whole else limit,
        )
        items += [item for item in found.items if kind is Kind.VIEW or is_iceberg(item)]
        token = found.next_token
        if token is None or not whole:
            return replace(found, items=tuple(items))


async def stage_table(ports: Ports, caller: Caller, new: NewTable) -> Document:
    """The metadata of a table that does not exist yet: its client commits it together with its first rows.

    Nothing is reserved. The commit brings the id and the location back, and they are checked then.
    """
    above = await _require_room(ports, caller, new.address)
    id = fresh.securable_id()
    location = _location(ports, new.location, above, id)
    return _first_metadata(ports, new, id, location)


async def create_table(ports: Ports, errand: Errand, new: NewTable) -> Loaded:
    """A new table without rows."""
    made: list[Metadata] = []
    async with WrittenFiles(ports) as files:

        async def prepare() -> tuple[Part]:
            await files.discard()
            above = await _require_room(ports, errand.caller, new.address)
            id = fresh.securable_id()
            doc = _first_metadata(ports, new, id, _location(ports, new.location, above, id))
            part, metadata = await prepare_creation(ports, errand.caller, new.address, above, id, doc, files)
            made[:] = [metadata]
            return (part,)

        settled = await settle(ports, errand, prepare)
        if settled.parts:
            files.keep()
    return await load_settled(ports, settled, made[0] if made else None)


async def _require_room(ports: Ports, caller: Caller, address: Address) -> Chain:
    require_name(address.path[-1], "name")
    above, holder = await find_parent(ports.ledger, address)
    require(ports.access, caller, Privilege.CREATE, above)
    if holder is not None:
        raise taken(address, holder)
    return above


def _location(ports: Ports, asked: str | None, above: Chain, id: SecurableId) -> str:
    if asked is None:
        return given_place(ports, above, "tables", id).rstrip("/")
    brought_place(ports, asked, field="location")
    return asked.rstrip("/")


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
    ports: Ports,
    caller: Caller,
    address: Address,
    above: Chain,
    id: SecurableId,
    doc: Document,
    files: WrittenFiles,
) -> tuple[Part, Metadata]:
    """A table with its first metadata, in a place of its own."""
    place = parse_place(doc["location"], field="location")
    managed = place == given_place(ports, above, "tables", id)
    await require_reachable(ports, place)
    metadata = await files.write(doc, 0)
    return _creation(caller, address, above[-1].id, id, place, metadata, managed=managed), metadata


def _creation(
    caller: Caller,
    address: Address,
    parent: SecurableId,
    id: SecurableId,
    place: str,
    metadata: Metadata,
    *,
    managed: bool,
) -> Part:
    table = TableDoc(format=ICEBERG, managed=managed)
    create = Create(
        id=id,
        kind=Kind.TABLE,
        parent=parent,
        name=address.path[-1],
        owner=caller.name,
        doc=described(Doc(location=place, table=table), metadata.doc),
        place=place,
    )
    return Part(
        expects=(Live(parent), NameFree(parent, address.shelf, address.key), PlaceFree(place)),
        changes=(create, version_of(id, 0, metadata, kind="metadata")),
        attachments=metadata.attachment(id, 0),
        done=Done(ids=(id,), versions=(0,)),
    )


def described(doc: Doc, metadata: Document) -> Doc:
    """The record of a table, as its metadata describes it."""
    table = doc.table or TableDoc(format=ICEBERG)
    properties = metadata["properties"]
    return replace(
        doc,
        comment=properties.get("comment"),
        properties=properties,
        table=replace(table, columns=columns_of(metadata)),
    )


def version_of(id: SecurableId, version: int, metadata: Metadata, *, kind: str) -> Commit:
    """The version of a table that its metadata file is."""
    current = metadata.doc.get("current-snapshot-id")
    return Commit(
        table=id,
        version=version,
        operation=kind,
        file=metadata.location,
        size=len(metadata.answer),
        timestamp_ms=metadata.doc["last-updated-ms"],
        details={} if current is None else {"snapshot_id": current},
    )


async def register_table(ports: Ports, errand: Errand, address: Address, location: str, *, overwrite: bool) -> Loaded:
    """A table from the metadata file that another catalog left behind. Its files stay its owner's."""

    async def prepare() -> tuple[Part]:
        require_name(address.path[-1], "name")
        above, holder = await find_parent(ports.ledger, address)
        require(ports.access, errand.caller, Privilege.CREATE, above)
        if holder is not None and not (overwrite and is_iceberg(holder)):
            raise taken(address, holder)
        metadata = await read_metadata(ports, location)
        if metadata is None:
            raise InvalidInput(f"there is no metadata file at {location!r}", field="metadata-location")
        if holder is None:
            place = _registered_place(ports, metadata.doc["location"])
            id = fresh.securable_id()
            return (_creation(errand.caller, address, above[-1].id, id, place, metadata, managed=False),)
        require(ports.access, errand.caller, Privilege.MANAGE, (*above, holder))
        return (_overwriting(ports, holder, metadata),)

    settled = await settle(ports, errand, prepare)
    return await load_settled(ports, settled, None)


def _registered_place(ports: Ports, location: str) -> str:
    """Also one in our own storage, where a table was that has been dropped; but never all of our storage."""
    place = parse_place(location, field="metadata-location")
    if place in places_above(ports.managed_root):
        raise InvalidInput(f"{location!r} is or holds the catalog's own storage", field="metadata-location")
    return place


def _overwriting(ports: Ports, table: Securable, metadata: Metadata) -> Part:
    """The file becomes the next version of the table that has the name, if it lies in the table's own place."""
    place = _registered_place(ports, metadata.doc["location"])
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
            version_of(table.id, version, metadata, kind="change"),
            Update(id=table.id, doc=described(table.doc, metadata.doc)),
        ),
        attachments=metadata.attachment(table.id, version),
        done=Done(ids=(table.id,), versions=(version,)),
    )


async def prepare_rename(ports: Ports, caller: Caller, address: Address, to: Address) -> Part:
    """Another name, in this namespace or another one of the catalog. No file moves."""
    await find_table(ports, caller, address, Privilege.MANAGE)
    _, holder = await find_parent(ports.ledger, to)
    if holder is not None:
        found = str(holder.kind).capitalize()
        raise NameTaken(f"Cannot rename {shown(address)} to {shown(to)}. {found} already exists", field="destination")
    return await trunk.prepare_rename(ports, caller, address, to, field="destination")


async def prepare_drop(ports: Ports, caller: Caller, address: Address, *, purge: bool) -> Part:
    """The name becomes free. Files go only if that was asked for.

    Without it they belong to whoever finds them, so that they can be registered again. With it they go
    after the hold, unless their owner chose the place: then it may be wanted again at once.
    """
    chain = await find_table(ports, caller, address, Privilege.MANAGE)
    table = chain[-1]
    doc = table.doc.table or TableDoc(format=ICEBERG)
    hold_ms = 0 if purge and not doc.managed else ports.hold_ms
    return Part(
        expects=(Live(table.id), RevisionIs(table.id, table.revision)),
        changes=(
            Update(id=table.id, doc=replace(table.doc, table=replace(doc, managed=purge))),
            Drop(id=table.id, hold_ms=hold_ms),
        ),
        done=Done(ids=(table.id,)),
        before=table,
    )
