"""Change an object's description, owner and name in one entry."""

from __future__ import annotations

from moorage.access.port import require
from moorage.core.callers import Caller
from moorage.core.entries import Change, Done, Expect, Live, NameFree, Rename, RevisionIs, Update
from moorage.core.errors import NameTaken
from moorage.core.names import require_name
from moorage.core.privileges import Privilege
from moorage.core.revisions import Revision, apply_revision
from moorage.core.securables import Securable
from moorage.usecases.catalog.addresses import Address, find_parent, reach
from moorage.usecases.catalog.owners import require_principal
from moorage.usecases.parts import Part
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.settling.settle import settle_one


async def revise(ports: Ports, errand: Errand, address: Address, revision: Revision) -> Securable:
    """Change an object's description, owner and name."""
    return await settle_one(ports, errand, lambda caller: prepare_revise(ports, caller, address, revision))


async def prepare_revise(ports: Ports, caller: Caller, address: Address, revision: Revision) -> Part:
    """The changes of a revision. A revision that changes nothing writes no entry."""
    return await revise_found(ports, caller, await reach(ports, caller, address, Privilege.MODIFY), revision)


async def revise_found(ports: Ports, caller: Caller, chain: tuple[Securable, ...], revision: Revision) -> Part:
    """`prepare_revise` for the last object of a chain that was already found."""
    before = chain[-1]
    require(ports.access, caller, Privilege.MODIFY, chain)
    changes: list[Change] = []
    doc = apply_revision(before.doc, revision)
    owner = None
    if revision.owner is not None and revision.owner != before.owner:
        require(ports.access, caller, Privilege.MANAGE, chain)
        owner = await require_principal(ports, revision.owner, "owner")
    if owner is not None or doc != before.doc:
        changes.append(Update(id=before.id, doc=doc, owner=owner))
    expects: list[Expect] = [Live(before.id), RevisionIs(before.id, before.revision)]
    if revision.new_name not in (None, before.name):
        name = require_name(revision.new_name, "new_name")
        expects.append(await _free_name(ports, caller, chain, name))
        changes.append(Rename(id=before.id, parent=before.parent, name=name))
    if not changes:
        expects = []
    return Part(expects=tuple(expects), changes=tuple(changes), done=Done(ids=(before.id,)), before=before)


async def _free_name(ports: Ports, caller: Caller, chain: tuple[Securable, ...], name: str) -> NameFree:
    before = chain[-1]
    require(ports.access, caller, Privilege.MANAGE, chain)
    to = Address(before.kind, (*(part.name for part in chain[:-1]), name))
    _, holder = await find_parent(ports.ledger, to)
    if holder is not None and holder.id != before.id:
        raise NameTaken(f"{holder.kind} '{to}' already exists", field="new_name", name=str(to), kind=str(holder.kind))
    return NameFree(before.parent, to.shelf, to.key)
