"""Grant privileges on objects, revoke them, and show who has which and why."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from moorage.access.port import require
from moorage.core.callers import Caller
from moorage.core.entries import Done, Live, RevisionIs, SetGrants
from moorage.core.errors import InvalidInput
from moorage.core.names import name_key
from moorage.core.permissions import GRANTABLE, Effective, effective
from moorage.core.privileges import Grant, Privilege
from moorage.core.securables import Grants, Kind, Securable
from moorage.usecases.catalog.addresses import Address, Chain, reach
from moorage.usecases.catalog.owners import require_principal
from moorage.usecases.parts import Part
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.settling.settle import settle

MAX_PRINCIPALS = 1_000
"""The principals that may hold grants on one object. More of them belong in groups: every request reads the grants."""


class GrantChange(msgspec.Struct, frozen=True, kw_only=True):
    """What a principal gains and loses on an object."""

    principal: str
    add: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()


async def grants_on(ports: Ports, caller: Caller, address: Address | None, *, principal: str | None = None) -> Grants:
    """The grants on an object (None: the metastore). Without MANAGE on it, a caller sees its own and its groups'."""
    chain, found = await _reach(ports, caller, address, Privilege.BROWSE)
    return _visible(ports, caller, chain, found.grants, principal)


async def effective_on(
    ports: Ports, caller: Caller, address: Address | None, *, principal: str | None = None
) -> tuple[list[Effective], Chain]:
    """The grants that hold on an object, also inherited ones with their origin, and its chain from the metastore on.

    The owners of the chain may do everything, too.
    """
    chain, _ = await _reach(ports, caller, address, Privilege.BROWSE)
    metastore = (await ports.ledger.lineage(ports.ledger.root)).chain[-1]
    whole = (metastore, *chain)
    held = list(effective(whole))
    shown = _visible(ports, caller, chain, {each.principal: () for each in held}, principal)
    return [each for each in held if each.principal in shown], whole


def _visible(ports: Ports, caller: Caller, chain: Chain, grants: Grants, principal: str | None) -> Grants:
    if not ports.access.allow(caller, Privilege.INSPECT, chain):
        grants = {name: held for name, held in grants.items() if name in caller.principals}
    if principal is not None:
        grants = {name: held for name, held in grants.items() if name_key(name) == name_key(principal)}
    return grants


async def change_grants(
    ports: Ports, errand: Errand, address: Address | None, changes: Sequence[GrantChange]
) -> Grants:
    """Grant and revoke privileges on an object, all in one step, and return all grants on it."""

    async def prepare(caller: Caller) -> Part:
        _, found = await _reach(ports, caller, address, Privilege.MANAGE)
        grants = {name: set(held) for name, held in found.grants.items()}
        for change in changes:
            add, remove = (_parsed(texts, found.kind) for texts in (change.add, change.remove))
            # A principal that was deleted can only lose grants.
            name = await require_principal(ports, change.principal, "principal") if add else _spelled(grants, change)
            grants[name] = (grants.get(name, set()) | add) - remove
        after = {name: tuple(sorted(held)) for name, held in sorted(grants.items()) if held}
        if len(after) > MAX_PRINCIPALS:
            raise InvalidInput(f"an object has grants for at most {MAX_PRINCIPALS} principals; use groups")
        if after == found.grants:
            return Part(done=Done(ids=(found.id,)), result=after)
        return Part(
            expects=(Live(found.id), RevisionIs(found.id, found.revision)),
            changes=(SetGrants(id=found.id, grants=after),),
            done=Done(ids=(found.id,)),
            result=after,
        )

    settled = await settle(ports, errand, prepare)
    if settled.parts:
        result: Grants = settled.parts[0].result
        return result
    return await grants_on(ports, errand.caller, address)


def _spelled(grants: dict[str, set[str]], change: GrantChange) -> str:
    return next((name for name in grants if name_key(name) == name_key(change.principal)), change.principal)


def _parsed(texts: Sequence[str], kind: Kind) -> set[str]:
    return {_parse_grant(text, kind).value for text in texts}


def _parse_grant(text: str, kind: Kind) -> Grant:
    """The privilege of a name with spaces or underscores, if it can be granted on objects of this kind."""
    try:
        grant = Grant(text.upper().replace("_", " "))
    except ValueError:
        raise InvalidInput(f"{text!r} is not a privilege; they are {', '.join(Grant)}", field="privilege") from None
    allowed = GRANTABLE.get(kind, frozenset())
    if grant not in allowed:
        listed = ", ".join(sorted(allowed)) or "none"
        raise InvalidInput(f"{grant} cannot be granted on a {kind}; possible are {listed}", field="privilege")
    return grant


async def _reach(
    ports: Ports, caller: Caller, address: Address | None, privilege: Privilege
) -> tuple[Chain, Securable]:
    if address is None:
        require(ports.access, caller, privilege, ())
        return (), (await ports.ledger.lineage(ports.ledger.root)).chain[-1]
    kinds = (Kind.VIEW,) if address.kind is Kind.TABLE else ()
    chain = await reach(ports, caller, address, privilege, kinds=kinds)
    return chain, chain[-1]
