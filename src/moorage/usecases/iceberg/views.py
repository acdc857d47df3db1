"""Iceberg views: create, register, replace and drop."""

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
from moorage.usecases.catalog.locations import require_choice, require_reachable
from moorage.usecases.catalog.relations import VIEW_DEFINITION
from moorage.usecases.iceberg.lookup import ICEBERG, find_relation, require_head
from moorage.usecases.iceberg.metadata_files import Metadata, load_metadata, new_metadata, read_metadata
from moorage.usecases.iceberg.relations import (
    Loaded,
    changed_location,
    chosen_location,
    load_settled,
    require_free_name,
    unchanged_part,
    version_commit,
)
from moorage.usecases.parts import NewFile, Part
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.settling.settle import settle, settle_one


class NewView(msgspec.Struct, frozen=True, kw_only=True):
    """The view that a request creates."""

    address: Address
    schema: Document
    version: Document
    location: str | None = None
    properties: dict[str, str] = {}


async def create_view(ports: Ports, errand: Errand, new: NewView) -> Loaded:
    """Create a view with one version."""

    async def prepare(caller: Caller) -> Part:
        above = await require_free_name(ports, caller, new.address)
        id = fresh.securable_id()
        given = chosen_location(ports, new.location, above, "views", id)
        doc = new_view(
            uuid=id,
            location=given,
            schema=new.schema,
            version=new.version,
            properties=new.properties,
            now_ms=ports.now_ms(),
        )
        location = parse_location(given, field="location")
        await require_reachable(ports, location)
        made, file = await new_metadata(doc, 0)
        return _creation_part(ports, caller, new.address, above[-1].id, id, location, made, file)

    return await load_settled(ports, await settle(ports, errand, prepare))


def _creation_part(
    ports: Ports,
    caller: Caller,
    address: Address,
    parent: SecurableId,
    id: SecurableId,
    location: str,
    made: Metadata,
    *files: NewFile,
) -> Part:
    create = Create(
        id=id,
        kind=Kind.VIEW,
        parent=parent,
        name=address.path[-1],
        owner=caller.id,
        doc=_doc_from_metadata(Doc(location=location), made.doc),
        place=location,
    )
    return Part(
        expects=(Live(parent), NameFree(parent, address.shelf, address.key), LocationFree(location, anew=bool(files))),
        changes=(create, version_commit(id, 0, made, kind=VersionKind.METADATA, at_ms=ports.now_ms())),
        attachments=made.attachment(id, 0),
        files=files,
        done=Done(ids=(id,), versions=(0,)),
        result=made,
    )


def _doc_from_metadata(doc: Doc, view: Document) -> Doc:
    """The record of a view with the SQL, columns, comment and properties of its metadata."""
    properties = view["properties"]
    return replace(
        doc,
        comment=properties.get("comment"),
        properties=properties,
        table=TableDoc(format=ICEBERG, managed=False, columns=columns_in(view_schema(view))),
        details={**doc.details, VIEW_DEFINITION: current_version(view)["representations"][0]["sql"]},
    )


async def register_view(ports: Ports, errand: Errand, address: Address, location: str) -> Loaded:
    """Create a view from a metadata file that another catalog wrote."""

    async def prepare(caller: Caller) -> Part:
        above = await require_free_name(ports, caller, address)
        folder = parse_location(location.rpartition("/")[0], field="metadata-location")
        await require_choice(ports, caller, folder)
        metadata = await read_metadata(ports, location, parse_view)
        if metadata is None:
            raise InvalidInput(f"there is no metadata file at {location!r}", field="metadata-location")
        root = registered_location(ports.roots, metadata.doc["location"])
        await require_reachable(ports, root)
        id = fresh.securable_id()
        return _creation_part(ports, caller, address, above[-1].id, id, root, metadata)

    return await load_settled(ports, await settle(ports, errand, prepare))


async def replace_view(
    ports: Ports, errand: Errand, address: Address, requirements: Sequence[Document], updates: Sequence[Document]
) -> Loaded:
    """Apply the updates as the view's next metadata."""

    async def prepare(caller: Caller) -> Part:
        chain = await find_relation(ports, caller, address, Privilege.MODIFY)
        view = chain[-1]
        before = await load_metadata(ports, view)
        check_view_requirements(before.doc, requirements)
        doc = updated_view(before.doc, updates, now_ms=ports.now_ms())
        if doc is before.doc:
            return unchanged_part(view, before)
        moved = await changed_location(ports, chain, "views", doc)
        made, file = await new_metadata(doc, require_head(view).version + 1)
        return _replacement_part(ports, view, made, file, moved)

    async with ports.local.queue(queue_of(address)):
        return await load_settled(ports, await settle(ports, errand, prepare))


def _replacement_part(ports: Ports, view: Securable, made: Metadata, file: NewFile, moved: str | None) -> Part:
    version = require_head(view).version + 1
    doc = _doc_from_metadata(replace(view.doc, location=moved or view.doc.location), made.doc)
    record = () if doc == view.doc else (Update(id=view.id, doc=doc, place=moved),)
    return Part(
        expects=(
            HeadIs(view.id, MAIN, version - 1),
            *((RevisionIs(view.id, view.revision),) if record else ()),
            *((LocationFree(moved, view.id, anew=True),) if moved is not None else ()),
        ),
        changes=(version_commit(view.id, version, made, kind=VersionKind.METADATA, at_ms=ports.now_ms()), *record),
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
