"""Create, list, change and delete users, service principals and groups. For administrators only, except `me`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from enum import Enum
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from moorage import fresh
from moorage.access.port import require
from moorage.core.absence import absent_id
from moorage.core.callers import SYSTEM, Caller
from moorage.core.entries import Create, Done, Drop, NameFree, RevisionIs, Update
from moorage.core.errors import InvalidInput, NameTaken, NotEmpty
from moorage.core.ids import SecurableId, is_id
from moorage.core.names import name_key
from moorage.core.principals import ADMINS, PRINCIPAL_KINDS, Principal, doc_of, principal_of, require_principal_name
from moorage.core.privileges import Privilege
from moorage.core.securables import Kind, Securable, Shelf
from moorage.ledger.port import Ledger
from moorage.usecases.catalog.owners import find_principal
from moorage.usecases.parts import Part
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.settling.settle import settle_one

_PAGE = 500
_MAX_MEMBERS = 900
"""The members that one request may add or remove: a draft has at most 1,000 changes."""


class Attribute(Enum):
    """An attribute by which principals can be found."""

    ID = "id"
    NAME = "name"
    DISPLAY_NAME = "display name"
    EXTERNAL_ID = "external id"


class Selection(NamedTuple):
    """The principals of which an attribute has this text."""

    attribute: Attribute
    text: str

    def selects(self, principal: Securable) -> bool:
        match self.attribute:
            case Attribute.ID:
                return principal.id == self.text
            case Attribute.NAME:
                return name_key(principal.name) == name_key(self.text)
            case Attribute.DISPLAY_NAME:
                shown = principal_of(principal).display_name
                return shown is not None and name_key(shown) == name_key(self.text)
            case Attribute.EXTERNAL_ID:
                return principal_of(principal).external_id == self.text


class Edit(msgspec.Struct, frozen=True, kw_only=True):
    """A change of a principal. Absent fields stay as they are."""

    name: str | None = None
    """The name that the request states. Another one than the present is refused."""
    name_field: str = "name"
    active: bool | None = None
    display_name: str | msgspec.UnsetType | None = msgspec.UNSET
    external_id: str | msgspec.UnsetType | None = msgspec.UNSET


async def create(ports: Ports, errand: Errand, kind: Kind, name: str, details: Principal, *, field: str) -> Securable:
    """Create a principal."""

    async def prepare(caller: Caller) -> Part:
        require(ports.access, caller, Privilege.MANAGE, ())
        require_principal_name(name, field)
        holder = await find_principal(ports.ledger, name)
        if holder is not None:
            raise _name_taken(holder, name, field)
        return _creation(ports.ledger, kind, name, details)

    return await settle_one(ports, errand, prepare)


def _creation(ledger: Ledger, kind: Kind, name: str, details: Principal) -> Part:
    id = fresh.securable_id()
    return Part(
        expects=(NameFree(ledger.root, Shelf.PRINCIPAL, name_key(name)),),
        changes=(Create(id=id, kind=kind, parent=ledger.root, name=name, owner=SYSTEM.id, doc=doc_of(details)),),
        done=Done(ids=(id,)),
    )


def _name_taken(holder: Securable, name: str, field: str) -> NameTaken:
    if principal_of(holder).deleted:
        return NameTaken(
            f"'{name}' is the name of a deleted {holder.kind}, which may still be granted something; "
            f"activate it again (id {holder.id}) or choose another name",
            field=field,
            kind=str(holder.kind),
        )
    return NameTaken(f"{holder.kind} '{name}' already exists", field=field, kind=str(holder.kind))


async def me(ports: Ports, caller: Caller) -> Securable | None:
    """The principal of the caller; None for the caller of a server without authentication."""
    require(ports.access, caller, Privilege.BROWSE, ())
    return await find_principal(ports.ledger, caller.id)


async def get(ports: Ports, caller: Caller, kind: Kind, id: str) -> Securable:
    """One principal."""
    require(ports.access, caller, Privilege.INSPECT, ())
    return await _find(ports, kind, id)


async def list_principals(
    ports: Ports, caller: Caller, kind: Kind, selection: Selection | None = None
) -> list[Securable]:
    """The principals of a kind in the order of their names, or the selected ones. Deleted ones are not listed."""
    require(ports.access, caller, Privilege.INSPECT, ())
    if selection is not None and selection.attribute is Attribute.NAME:
        found = await find_principal(ports.ledger, selection.text)
        return [found] if found is not None and found.kind is kind and not principal_of(found).deleted else []
    return [
        each
        async for each in _all(ports.ledger, (kind,))
        if not principal_of(each).deleted and (selection is None or selection.selects(each))
    ]


async def members_of(ports: Ports, caller: Caller, group: Securable) -> list[Securable]:
    """The direct members of a group."""
    require(ports.access, caller, Privilege.INSPECT, ())
    key = name_key(group.name)
    return [
        each
        async for each in _all(ports.ledger, PRINCIPAL_KINDS)
        if any(name_key(name) == key for name in principal_of(each).groups)
    ]


async def edit(ports: Ports, errand: Errand, kind: Kind, id: str, change: Edit) -> Securable:
    """Change the description of a principal, or whether it is active."""

    async def prepare(caller: Caller) -> Part:
        require(ports.access, caller, Privilege.MANAGE, ())
        found = await _find(ports, kind, id, deleted=True)
        require_same_name(found, change.name, change.name_field)
        details = principal_of(found)
        after = replace(
            details,
            active=details.active if change.active is None else change.active,
            deleted=details.deleted and not change.active,
            display_name=details.display_name if change.display_name is msgspec.UNSET else change.display_name,
            external_id=details.external_id if change.external_id is msgspec.UNSET else change.external_id,
        )
        return _update(found, after)

    return await settle_one(ports, errand, prepare)


def require_same_name(principal: Securable, name: str | None, field: str) -> None:
    """Refuse another name than that of the principal. None is no name."""
    if name is not None and name_key(name) != name_key(principal.name):
        raise InvalidInput(f"{field} is '{principal.name}' and cannot change: grants refer to it", field=field)


async def delete(ports: Ports, errand: Errand, kind: Kind, id: str) -> Securable:
    """Delete a principal: it has no members, groups or tokens afterwards. Its name stays taken."""

    async def prepare(caller: Caller) -> Part:
        require(ports.access, caller, Privilege.MANAGE, ())
        found = await _find(ports, kind, id)
        if found.name == ADMINS:
            raise NotEmpty(f"the group '{ADMINS}' owns the metastore and cannot be deleted")
        part = _update(found, replace(principal_of(found), active=False, deleted=True, groups=()))
        # Without `before`, the response is read again: the drops below are of other objects.
        part = replace(part, before=None)
        tokens = await ports.ledger.children(found.id, Shelf.TOKEN, limit=_MAX_MEMBERS)
        revoked = tuple(Drop(id=token.id, hold_ms=0, changes_access=True) for token in tokens.items)
        return replace(part, changes=(*part.changes, *revoked))

    return await settle_one(ports, errand, prepare)


async def create_group(
    ports: Ports, errand: Errand, name: str, details: Principal, members: Sequence[str]
) -> Securable:
    """Create a group with members, given by their ids."""

    async def prepare(caller: Caller) -> Part:
        require(ports.access, caller, Privilege.MANAGE, ())
        require_principal_name(name, "displayName")
        holder = await find_principal(ports.ledger, name)
        if holder is not None:
            raise _name_taken(holder, name, "displayName")
        part = _creation(ports.ledger, Kind.GROUP, name, details)
        joined = [await _membership(ports, name, member_id, joins=True) for member_id in dict.fromkeys(members)]
        return _with_members(part, joined)

    return await settle_one(ports, errand, prepare)


async def change_members(
    ports: Ports,
    errand: Errand,
    id: str,
    *,
    add: Sequence[str] = (),
    remove: Sequence[str] = (),
    replaces: bool = False,
    name: str | None = None,
    activates: bool = False,
) -> Securable:
    """Add principals to a group and remove others, given by their ids. `replaces`: remove all that are not added.

    `name`: what the request states, which must be the name of the group. `activates`: also restore a deleted group.
    """

    async def prepare(caller: Caller) -> Part:
        require(ports.access, caller, Privilege.MANAGE, ())
        group = await _find(ports, Kind.GROUP, id, deleted=activates)
        require_same_name(group, name, "displayName")
        left = set(remove)
        if replaces:
            left |= {member.id for member in await members_of(ports, caller, group)} - set(add)
        joined = [each for each in dict.fromkeys(add) if each not in left]
        for member_id in joined:
            await _require_no_cycle(ports.ledger, group, await _find(ports, None, member_id))
        changes = [await _membership(ports, group.name, each, joins=True) for each in joined]
        changes += [await _membership(ports, group.name, each, joins=False) for each in sorted(left)]
        restored = replace(principal_of(group), active=True, deleted=False) if activates else principal_of(group)
        # Without `before`, the response is read again: the changes are of other objects.
        return _with_members(replace(_update(group, restored), before=None), changes)

    return await settle_one(ports, errand, prepare)


async def _membership(ports: Ports, group: str, member_id: str, *, joins: bool) -> Part:
    """The change of a principal that joins or leaves a group."""
    member = await _find(ports, None, member_id)
    details = principal_of(member)
    others = tuple(name for name in details.groups if name_key(name) != name_key(group))
    return _update(member, replace(details, groups=(*others, group) if joins else others))


def _with_members(part: Part, members: Sequence[Part]) -> Part:
    if len(members) > _MAX_MEMBERS:
        raise InvalidInput(f"a request changes at most {_MAX_MEMBERS} members: split it", field="members")
    return replace(
        part,
        expects=(*part.expects, *(expect for member in members for expect in member.expects)),
        changes=(*part.changes, *(change for member in members for change in member.changes)),
    )


async def _require_no_cycle(ledger: Ledger, group: Securable, member: Securable) -> None:
    """Refuse a group that would contain itself. It would do no harm, but it is a mistake."""
    above, seen = [group.name], set[str]()
    while above:
        key = name_key(above.pop())
        if key == name_key(member.name):
            raise InvalidInput(f"'{member.name}' contains the group '{group.name}' already", field="members")
        if key not in seen:
            seen.add(key)
            found = await find_principal(ledger, key)
            above += principal_of(found).groups if found is not None else ()


def _update(found: Securable, after: Principal) -> Part:
    if after == principal_of(found):
        return Part(done=Done(ids=(found.id,)), before=found)
    return Part(
        expects=(RevisionIs(found.id, found.revision),),
        changes=(Update(id=found.id, doc=doc_of(after, found.doc.comment), changes_access=True),),
        done=Done(ids=(found.id,)),
        before=found,
    )


async def _find(ports: Ports, kind: Kind | None, id: str, *, deleted: bool = False) -> Securable:
    chain = (await ports.ledger.lineage(SecurableId(id))).chain if is_id(id) else ()
    found = chain[-1] if len(chain) == 1 else None
    kinds = PRINCIPAL_KINDS if kind is None else (kind,)
    if found is None or found.kind not in kinds or (principal_of(found).deleted and not deleted):
        raise absent_id(kind, id)
    return found


async def _all(ledger: Ledger, kinds: tuple[Kind, ...]) -> AsyncIterator[Securable]:
    after = ""
    while True:
        items = (await ledger.children(ledger.root, Shelf.PRINCIPAL, after=after, limit=_PAGE, kinds=kinds)).items
        for item in items:
            yield item
        if len(items) < _PAGE:
            return
        after = name_key(items[-1].name)
        await asyncio.sleep(0)  # SQLite's calls never yield, so a long list would block all other requests
