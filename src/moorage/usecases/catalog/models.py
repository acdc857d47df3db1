"""Registered models, and their numbered versions."""

from __future__ import annotations

from msgspec.structs import replace

from moorage import fresh
from moorage.access.port import require
from moorage.core.callers import Caller
from moorage.core.entries import Create, Done, Drop, Empty, Live, NameFree, RevisionIs, Update
from moorage.core.errors import NotEmpty, SecurableNotFound
from moorage.core.ids import SecurableId
from moorage.core.names import name_key
from moorage.core.privileges import Privilege
from moorage.core.securables import Doc, Kind, Securable, Shelf
from moorage.ledger.port import Step
from moorage.usecases.catalog import objects
from moorage.usecases.catalog.addresses import Address, find, find_parent
from moorage.usecases.catalog.browse import Page, page_below
from moorage.usecases.catalog.places import given_place, require_reachable
from moorage.usecases.catalog.revisions import Revision, revise_found
from moorage.usecases.ports import Ports
from moorage.usecases.settling.settle import Part

LAST_VERSION = "last_version"
"""In a model's details: the highest number given out. It outlives the version, so no number is given twice."""
STATUS = "status"
PENDING, READY = "PENDING_REGISTRATION", "READY"

_DIGITS = 10


def version_name(number: int) -> str:
    """Versions are listed by name; with leading zeros that is the order of their numbers."""
    return f"{number:0{_DIGITS}d}"


async def prepare_model(ports: Ports, caller: Caller, address: Address, doc: Doc) -> Part:
    """A model without versions, and the place where the catalog will keep theirs."""
    part = await objects.prepare_create(ports, caller, address, doc)
    above, _ = await find_parent(ports.ledger, address)
    place = given_place(ports, above, "models", SecurableId(part.done.ids[0]))
    await require_reachable(ports, place)
    return objects.holding(part, place)


async def prepare_drop_model(ports: Ports, caller: Caller, address: Address, *, cascade: bool) -> Part:
    """Drop a model; one that has versions only by cascade."""
    part = await objects.prepare_drop(ports, caller, address)
    if cascade:
        return part
    model = SecurableId(part.done.ids[0])
    if (await ports.ledger.children(model, Shelf.MODEL_VERSION, limit=1)).items:
        raise NotEmpty(f"model '{address}' still has versions; delete them first, or force it", name=str(address))
    return replace(part, expects=(*part.expects, Empty(model)))


async def prepare_version(ports: Ports, caller: Caller, address: Address, doc: Doc) -> Part:
    """The next version of a model, which awaits its files."""
    chain = await find(ports.ledger, address)
    model = chain[-1]
    require(ports.access, caller, Privilege.CREATE, chain)
    number = int(model.doc.details.get(LAST_VERSION, 0)) + 1
    id = fresh.securable_id()
    name = version_name(number)
    location = f"{model.doc.location}versions/{id}/"  # inside the model's own place, so it takes none
    details = {**doc.details, STATUS: PENDING}
    create = Create(
        id=id,
        kind=Kind.MODEL_VERSION,
        parent=model.id,
        name=name,
        owner=caller.name,
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
    chain = await _find_version(ports, address, number)
    require(ports.access, caller, Privilege.BROWSE, chain)
    return chain


async def versions(ports: Ports, caller: Caller, address: Address, *, token: str | None, limit: int) -> Page:
    """The versions of a model in the order of their numbers."""
    return await page_below(
        ports, caller, await find(ports.ledger, address), Shelf.MODEL_VERSION, token=token, limit=limit
    )


async def prepare_revise_version(
    ports: Ports, caller: Caller, address: Address, number: int, revision: Revision
) -> Part:
    return await revise_found(ports, caller, await _find_version(ports, address, number), revision)


async def prepare_finalize(ports: Ports, caller: Caller, address: Address, number: int) -> Part:
    """All files of a version are written: it is ready. Saying so twice is fine."""
    return await prepare_revise_version(ports, caller, address, number, Revision(details={STATUS: READY}))


async def prepare_drop_version(ports: Ports, caller: Caller, address: Address, number: int) -> Part:
    chain = await _find_version(ports, address, number)
    before = chain[-1]
    require(ports.access, caller, Privilege.MANAGE, chain)
    return Part(
        expects=(Live(before.id), RevisionIs(before.id, before.revision)),
        changes=(Drop(id=before.id, hold_ms=ports.hold_ms),),
        done=Done(ids=(before.id,)),
        before=before,
    )


async def _find_version(ports: Ports, address: Address, number: int) -> tuple[Securable, ...]:
    chain = await find(ports.ledger, address)
    shelves = (Shelf.CATALOG, *(Shelf.NAMESPACE for _ in chain[1:-1]), Shelf.MODEL, Shelf.MODEL_VERSION)
    keys = (*(name_key(part.name) for part in chain), version_name(number))
    found = (await ports.ledger.walk([Step(shelf, key) for shelf, key in zip(shelves, keys, strict=True)])).chain
    if len(found) < len(keys):
        raise SecurableNotFound(
            f"model '{address}' has no version {number}", name=str(address), kind=str(Kind.MODEL_VERSION)
        )
    return found
