"""Registered models, and their numbered versions."""

from __future__ import annotations

from msgspec.structs import replace

from moorage import fresh
from moorage.access.port import require
from moorage.core.callers import Caller
from moorage.core.entries import Create, Done, Drop, Empty, Live, NameFree, RevisionIs, Update
from moorage.core.errors import NotEmpty, SecurableNotFound
from moorage.core.ids import SecurableId
from moorage.core.locations import assigned_location
from moorage.core.names import name_key
from moorage.core.privileges import Privilege
from moorage.core.revisions import Revision
from moorage.core.securables import Doc, Kind, Securable, Shelf
from moorage.ledger.port import Step
from moorage.usecases.catalog import objects
from moorage.usecases.catalog.addresses import Address, Chain, reach, reach_parent
from moorage.usecases.catalog.browse import Page, page_below
from moorage.usecases.catalog.locations import require_reachable
from moorage.usecases.catalog.revisions import revise_found
from moorage.usecases.parts import Part
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.settling.settle import settle_one

LAST_VERSION = "last_version"
"""In a model's details: the highest number given out. It outlives the version, so no number is given twice."""
STATUS = "status"
PENDING, READY = "PENDING_REGISTRATION", "READY"

_DIGITS = 10


def version_name(number: int) -> str:
    """Versions are listed by name; with leading zeros that is the order of their numbers."""
    return f"{number:0{_DIGITS}d}"


async def create_model(ports: Ports, errand: Errand, address: Address, doc: Doc) -> Securable:
    """Create a model without versions, and assign the location for their files."""

    async def prepare(caller: Caller) -> Part:
        part = await objects.prepare_create(ports, caller, address, doc)
        above, _ = await reach_parent(ports, caller, address)
        location = assigned_location(ports.roots, above, "models", SecurableId(part.done.ids[0]))
        await require_reachable(ports, location)
        return objects.with_location(part, location)

    return await settle_one(ports, errand, prepare)


async def drop_model(ports: Ports, errand: Errand, address: Address, *, cascade: bool) -> Securable:
    """Drop a model. A model that has versions is dropped only with `cascade`."""

    async def prepare(caller: Caller) -> Part:
        part = await objects.prepare_drop(ports, caller, address)
        if cascade:
            return part
        model = SecurableId(part.done.ids[0])
        if (await ports.ledger.children(model, Shelf.MODEL_VERSION, limit=1)).items:
            raise NotEmpty(f"model '{address}' still has versions; delete them first, or force it", name=str(address))
        return replace(part, expects=(*part.expects, Empty(model)))

    return await settle_one(ports, errand, prepare)


async def create_version(ports: Ports, errand: Errand, address: Address, doc: Doc) -> Securable:
    """Create the next version of a model. The client writes its files next, and then finalizes it."""
    return await settle_one(ports, errand, lambda caller: _prepare_version(ports, caller, address, doc))


async def _prepare_version(ports: Ports, caller: Caller, address: Address, doc: Doc) -> Part:
    model = (await reach(ports, caller, address, Privilege.CREATE))[-1]
    number = int(model.doc.details.get(LAST_VERSION, 0)) + 1
    id = fresh.securable_id()
    name = version_name(number)
    location = f"{model.doc.location}versions/{id}/"  # inside the model's location, so it holds none of its own
    details = {**doc.details, STATUS: PENDING}
    create = Create(
        id=id,
        kind=Kind.MODEL_VERSION,
        parent=model.id,
        name=name,
        owner=caller.id,
        doc=replace(doc, location=location, details=details),
    )
    counted = replace(model.doc, details={**model.doc.details, LAST_VERSION: number})
    return Part(
        expects=(
            Live(model.id),
            RevisionIs(model.id, model.revision),
            NameFree(model.id, Shelf.MODEL_VERSION, name_key(name)),
        ),
        changes=(create, Update(id=model.id, doc=counted)),
        done=Done(ids=(id,)),
    )


async def get_version(ports: Ports, caller: Caller, address: Address, number: int) -> tuple[Securable, ...]:
    """One version with its model and the model's ancestors."""
    return await reach_version(ports, caller, address, number, Privilege.BROWSE)


async def list_versions(ports: Ports, caller: Caller, address: Address, *, token: str | None, limit: int) -> Page:
    """The versions of a model in the order of their numbers."""
    chain = await reach(ports, caller, address, Privilege.BROWSE)
    return await page_below(ports, caller, chain, Shelf.MODEL_VERSION, token=token, limit=limit)


async def revise_version(ports: Ports, errand: Errand, address: Address, number: int, revision: Revision) -> Securable:
    """Change the description of a version."""

    async def prepare(caller: Caller) -> Part:
        chain = await reach_version(ports, caller, address, number, Privilege.MODIFY)
        return await revise_found(ports, caller, chain, revision)

    return await settle_one(ports, errand, prepare)


async def finalize_version(ports: Ports, errand: Errand, address: Address, number: int) -> Securable:
    """Mark a version as ready: all its files are written. This can be repeated."""
    return await revise_version(ports, errand, address, number, Revision(details={STATUS: READY}))


async def drop_version(ports: Ports, errand: Errand, address: Address, number: int) -> Securable:
    """Drop one version of a model."""

    async def prepare(caller: Caller) -> Part:
        before = (await reach_version(ports, caller, address, number, Privilege.MANAGE))[-1]
        return Part(
            expects=(Live(before.id), RevisionIs(before.id, before.revision)),
            changes=(Drop(id=before.id, hold_ms=ports.hold_ms),),
            done=Done(ids=(before.id,)),
            before=before,
        )

    return await settle_one(ports, errand, prepare)


async def reach_version(ports: Ports, caller: Caller, address: Address, number: int, privilege: Privilege) -> Chain:
    """One version with its model and the model's ancestors, for a caller that holds the privilege on it."""
    chain = await reach(ports, caller, address, Privilege.BROWSE)
    shelves = (Shelf.CATALOG, *(Shelf.NAMESPACE for _ in chain[1:-1]), Shelf.MODEL, Shelf.MODEL_VERSION)
    keys = (*(name_key(part.name) for part in chain), version_name(number))
    found = (await ports.ledger.walk([Step(shelf, key) for shelf, key in zip(shelves, keys, strict=True)])).chain
    if len(found) < len(keys):
        raise SecurableNotFound(
            f"model '{address}' has no version {number}", name=str(address), kind=str(Kind.MODEL_VERSION)
        )
    require(ports.access, caller, privilege, found)
    return found
