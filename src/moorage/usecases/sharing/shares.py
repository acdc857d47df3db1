"""Create, change and describe shares."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from moorage.core.callers import Caller
from moorage.core.entries import Live, RevisionIs, Update
from moorage.core.ids import SecurableId
from moorage.core.names import name_key
from moorage.core.privileges import Privilege
from moorage.core.revisions import Revision
from moorage.core.securables import Doc, Securable, Shelf
from moorage.core.shares import ObjectDetails, details_of, schema_of
from moorage.usecases.catalog.addresses import find_by_id, reach, share
from moorage.usecases.catalog.objects import create
from moorage.usecases.catalog.revisions import revise_found
from moorage.usecases.parts import Part
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.settling.settle import settle_one
from moorage.usecases.sharing.granted import is_shareable
from moorage.usecases.sharing.share_plan import ObjectUpdate
from moorage.usecases.sharing.share_updates import prepare_updates

_BATCH: Final = 1_000


class SharedObject(msgspec.Struct, frozen=True, kw_only=True):
    """One object of a share as its provider sees it."""

    shared: Securable
    details: ObjectDetails
    name: str
    """The full name of the table or schema, as it is called now."""
    is_active: bool
    """Whether recipients can read it. They cannot after the table or schema was dropped."""

    @property
    def shared_as(self) -> str:
        return self.shared.name if self.details.type == "TABLE" else schema_of(self.shared.name)


async def create_share(ports: Ports, errand: Errand, name: str, doc: Doc) -> Securable:
    """Create a share. Nothing is in it yet, and no recipient can see it."""
    return await create(ports, errand, share(name), doc)


async def change_share(
    ports: Ports, errand: Errand, name: str, revision: Revision, updates: Sequence[ObjectUpdate]
) -> Securable:
    """Change a share and its objects in one step.

    A change of its objects revises the share too. So two changes never decide on the same state, and a reader of the
    objects can tell whether they changed meanwhile.
    """

    async def prepare(caller: Caller) -> tuple[Part, ...]:
        chain = await reach(ports, caller, share(name), Privilege.MODIFY)
        before = chain[-1]
        part = await revise_found(ports, caller, chain, revision)
        if not updates:
            return (part,)
        changes = await prepare_updates(ports, caller, before, updates)
        if not part.changes:
            expects = (Live(before.id), RevisionIs(before.id, before.revision))
            part = replace(part, expects=expects, changes=(Update(id=before.id, doc=before.doc),))
        return (part, Part(changes=changes))

    return await settle_one(ports, errand, prepare)


async def objects_of(ports: Ports, caller: Caller, name: str) -> tuple[SharedObject, ...]:
    """All objects of a share, ordered by the names that recipients see."""
    found = (await reach(ports, caller, share(name), Privilege.BROWSE))[-1]
    objects: list[SharedObject] = []
    async for batch in _batches(ports, found.id):
        objects += await asyncio.gather(*(_shared_object(ports, item) for item in batch))
    return tuple(objects)


async def _shared_object(ports: Ports, shared: Securable) -> SharedObject:
    details = details_of(shared)
    chain = await find_by_id(ports.ledger, details.target)
    name = ".".join(part.name for part in chain) or details.name
    is_active = bool(chain) and (details.type == "SCHEMA" or is_shareable(ports, chain[-1]))
    return SharedObject(shared=shared, details=details, name=name, is_active=is_active)


async def _batches(ports: Ports, share_id: SecurableId) -> AsyncIterator[tuple[Securable, ...]]:
    after = ""
    while True:
        items = (await ports.ledger.children(share_id, Shelf.SHARED_OBJECT, after=after, limit=_BATCH)).items
        yield items
        if len(items) < _BATCH:
            return
        after = name_key(items[-1].name)
