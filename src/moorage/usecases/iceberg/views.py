"""Iceberg views: created, registered, replaced and dropped."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from moorage import fresh
from moorage.core.callers import Caller
from moorage.core.entries import Create, Done, HeadIs, Live, LocationFree, NameFree, RevisionIs, Update
from moorage.core.errors import InvalidInput
from moorage.core.ids import SecurableId
from moorage.core.locations import parse_location, registered_location
from moorage.core.privileges import Privilege
from moorage.core.securables import MAIN, Doc, Kind, Securable, TableDoc
from moorage.core.versions import VersionKind
from moorage.formats.iceberg.columns import columns_in
from moorage.formats.iceberg.documents import Document
from moorage.formats.iceberg.views import (
    check_view_requirements,
    current_version,
    new_view,
    parse_view,
    updated_view,
    view_schema,
)
from moorage.usecases.catalog import objects
from moorage.usecases.catalog.addresses import Address, queue_of
from moorage.usecases.catalog.locations import require_reachable
from moorage.usecases.catalog.relations import VIEW_DEFINITION
from moorage.usecases.iceberg.lookup import ICEBERG, find_relation, head_of
from moorage.usecases.iceberg.metadata_files import Metadata, metadata_of, new_metadata, read_metadata
from moorage.usecases.iceberg.relations import (
    Loaded,
    chosen_location,
    load_settled,
    moved_place,
    require_room,
    unchanged,
    version_of,
)
from moorage.usecases.parts import NewFile, Part
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.settling.settle import settle, settle_one


class NewView(msgspec.Struct, frozen=True, kw_only=True):
    """What a request says of the view that it creates."""

    address: Address
    schema: Document
    version: Document
    location: str | None = None
    properties: dict[str, str] = {}


async def create_view(ports: Ports, errand: Errand, new: NewView) -> Loaded:
    """A new view with one version."""

    async def prepare(caller: Caller) -> Part:
        above = await require_room(ports, caller, new.address)
        id = fresh.securable_id()
        location = chosen_location(ports, new.location, above, "views", id)
        doc = new_view(
            uuid=id,
            location=location,
            schema=new.schema,
            version=new.version,
            properties=new.properties,
            now_ms=ports.now_ms(),
        )
        place = parse_location(location, field="location")
        await require_reachable(ports, place)
        made, file = await new_metadata(doc, 0)
        return _creation(ports, caller, new.address, above[-1].id, id, place, made, file)

    return await load_settled(ports, await settle(ports, errand, prepare))


def _creation(
    ports: Ports,
    caller: Caller,
    address: Address,
    parent: SecurableId,
    id: SecurableId,
    place: str,
    made: Metadata,
    *files: NewFile,
) -> Part:
    create = Create(
        id=id,
        kind=Kind.VIEW,
        parent=parent,
        name=address.path[-1],
        owner=caller.id,
        doc=_described(Doc(location=place), made.doc),
        place=place,
    )
    return Part(
        expects=(Live(parent), NameFree(parent, address.shelf, address.key), LocationFree(place, anew=bool(files))),
        changes=(create, version_of(id, 0, made, kind=VersionKind.METADATA, at_ms=ports.now_ms())),
        attachments=made.attachment(id, 0),
        files=files,
        done=Done(ids=(id,), versions=(0,)),
        result=made,
    )


def _described(doc: Doc, view: Document) -> Doc:
    """The record of a view, as its metadata describes it."""
    properties = view["properties"]
    return replace(
        doc,
        comment=properties.get("comment"),
        properties=properties,
        table=TableDoc(format=ICEBERG, managed=False, columns=columns_in(view_schema(view))),
        details={**doc.details, VIEW_DEFINITION: current_version(view)["representations"][0]["sql"]},
    )


async def register_view(ports: Ports, errand: Errand, address: Address, location: str) -> Loaded:
    """A view from the metadata file that another catalog left behind."""

    async def prepare(caller: Caller) -> Part:
        above = await require_room(ports, caller, address)
        metadata = await read_metadata(ports, location, parse_view)
        if metadata is None:
            raise InvalidInput(f"there is no metadata file at {location!r}", field="metadata-location")
        place = registered_location(ports.roots, metadata.doc["location"])
        await require_reachable(ports, place)
        id = fresh.securable_id()
        return _creation(ports, caller, address, above[-1].id, id, place, metadata)

    return await load_settled(ports, await settle(ports, errand, prepare))


async def replace_view(
    ports: Ports, errand: Errand, address: Address, requirements: Sequence[Document], updates: Sequence[Document]
) -> Loaded:
    """Apply the updates as the view's next metadata."""

    async def prepare(caller: Caller) -> Part:
        chain = await find_relation(ports, caller, address, Privilege.MODIFY)
        view = chain[-1]
        before = await metadata_of(ports, view)
        check_view_requirements(before.doc, requirements)
        doc = updated_view(before.doc, updates, now_ms=ports.now_ms())
        if doc is before.doc:
            return unchanged(view, before)
        moved = await moved_place(ports, chain, "views", doc)
        made, file = await new_metadata(doc, head_of(view).version + 1)
        return _replacement(ports, view, made, file, moved)

    async with ports.local.queue(queue_of(address)):
        return await load_settled(ports, await settle(ports, errand, prepare))


def _replacement(ports: Ports, view: Securable, made: Metadata, file: NewFile, moved: str | None) -> Part:
    version = head_of(view).version + 1
    doc = _described(replace(view.doc, location=moved or view.doc.location), made.doc)
    record = () if doc == view.doc else (Update(id=view.id, doc=doc, place=moved),)
    return Part(
        expects=(
            HeadIs(view.id, MAIN, version - 1),
            *((RevisionIs(view.id, view.revision),) if record else ()),
            *((LocationFree(moved, view.id, anew=True),) if moved is not None else ()),
        ),
        changes=(version_of(view.id, version, made, kind=VersionKind.METADATA, at_ms=ports.now_ms()), *record),
        attachments=made.attachment(view.id, version),
        files=(file,),
        result=made,
        done=Done(ids=(view.id,), versions=(version,)),
        before=view,
    )


async def drop_view(ports: Ports, errand: Errand, address: Address) -> Securable:
    """Free the name. The metadata files stay, so that the view can be registered again."""

    async def prepare(caller: Caller) -> Part:
        await find_relation(ports, caller, address, Privilege.MANAGE)
        return await objects.prepare_drop(ports, caller, address)

    return await settle_one(ports, errand, prepare)
