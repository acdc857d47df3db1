"""Resolves a principal to a caller: its groups, and what they hold on the metastore."""

from __future__ import annotations

from moorage.core.callers import EVERYONE, Caller
from moorage.core.names import name_key
from moorage.core.principals import ADMINS, principal_of
from moorage.core.securables import Kind, Securable, Shelf
from moorage.ledger.port import Found, Ledger, Position, Step

_MAX_CALLERS = 100_000


class Directory:
    """The callers of principals, cached for one state of all grants, groups and tokens."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._access_seq = -1
        self._callers: dict[tuple[str, tuple[str, ...]], Caller] = {}

    async def find(self, name: str) -> Found:
        """The principal of a name; the chain is empty if there is none."""
        return await self._ledger.walk((Step(Shelf.PRINCIPAL, name_key(name)),))

    async def caller(self, principal: Securable, position: Position, claimed: tuple[str, ...] = ()) -> Caller:
        """The caller of a principal that was read at this position. `claimed`: further groups, by its token."""
        if position.access_seq != self._access_seq or len(self._callers) > _MAX_CALLERS:
            self._callers.clear()
            self._access_seq = position.access_seq
        known = self._callers.get((principal.name, claimed))
        if known is None:
            known = await self._resolve(principal, position, claimed)
            if position.access_seq == self._access_seq:  # another request may have seen a change in the meantime
                self._callers[principal.name, claimed] = known
        return known

    async def _resolve(self, principal: Securable, position: Position, claimed: tuple[str, ...]) -> Caller:
        principals = {EVERYONE, principal.name, *await self._groups(principal, claimed)}
        metastore = (await self._ledger.lineage(self._ledger.root)).chain[-1]
        held = [metastore.grants[name] for name in metastore.grants.keys() & principals]
        return Caller(
            id=principal.name,
            name=principal.name,
            principals=frozenset(principals),
            grants=frozenset().union(*held),
            is_admin=metastore.owner in principals,
            access_seq=position.access_seq,
        )

    async def _groups(self, principal: Securable, claimed: tuple[str, ...]) -> set[str]:
        """The groups of a principal, directly or through other groups. Deleted and inactive ones have no effect."""
        found: set[str] = set()
        seen: set[str] = set()
        # Administrators are appointed here, not by the name of a group at the identity provider.
        open_names = [*principal_of(principal).groups, *(name for name in claimed if name_key(name) != ADMINS)]
        while open_names:
            key = name_key(open_names.pop())
            if key in seen:
                continue
            seen.add(key)
            chain = (await self.find(key)).chain
            if not chain or chain[0].kind is not Kind.GROUP:
                continue
            details = principal_of(chain[0])
            if details.active:
                found.add(chain[0].name)
                open_names += details.groups
        return found
