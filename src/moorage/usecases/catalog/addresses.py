"""Find objects by name. An error names the first object on the path that does not exist."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import lru_cache, partial

import msgspec

from moorage.access.port import require
from moorage.core.absence import absent, absent_id
from moorage.core.callers import Caller
from moorage.core.errors import NotFound
from moorage.core.ids import SecurableId, Seq, is_id
from moorage.core.names import name_key, require_name, require_path
from moorage.core.privileges import Privilege, creation_of
from moorage.core.securables import SHELF_OF, Kind, Securable, Shelf
from moorage.ledger.port import Found, Ledger, Step
from moorage.usecases.local_state import TableQueue
from moorage.usecases.ports import Ports

Chain = tuple[Securable, ...]
"""An object below its ancestors, outermost first."""

IN_METASTORE = frozenset({Kind.SHARE, Kind.RECIPIENT, Kind.CREDENTIAL, Kind.EXTERNAL_LOCATION})
"""The kinds that are beside the catalogs, not in one."""


class Address(msgspec.Struct, frozen=True, cache_hash=True):
    """A kind of object and its path of names, the catalog first."""

    kind: Kind
    path: tuple[str, ...]

    @property
    def parent(self) -> Address | None:
        """The address of the parent; None for a catalog, which is in the metastore."""
        if len(self.path) == 1:
            return None
        return Address(Kind.CATALOG if len(self.path) == 2 else Kind.NAMESPACE, self.path[:-1])

    @property
    def shelf(self) -> Shelf:
        return SHELF_OF[self.kind]

    @property
    def key(self) -> str:
        return name_key(self.path[-1])

    def __str__(self) -> str:
        return ".".join(self.path)


def catalog(name: str, *, field: str = "catalog") -> Address:
    return Address(Kind.CATALOG, (require_name(name, field),))


@lru_cache(maxsize=4096)
def namespace(catalog_name: str, *levels: str, field: str = "namespace") -> Address:
    """A namespace of a catalog. `field` is the request field that the levels come from, for error messages."""
    return Address(Kind.NAMESPACE, require_path((*catalog(catalog_name).path, *levels), field))


@lru_cache(maxsize=4096)
def table(space: Address, name: str) -> Address:
    return Address(Kind.TABLE, (*space.path, require_name(name, "table")))


def share(name: str) -> Address:
    return Address(Kind.SHARE, (name,))


def recipient(name: str) -> Address:
    return Address(Kind.RECIPIENT, (name,))


@lru_cache(maxsize=16_384)
def _steps(address: Address) -> tuple[Step, ...]:
    if address.kind in IN_METASTORE:
        return (Step(address.shelf, address.key),)
    last = len(address.path) - 1
    return tuple(
        Step(Shelf.CATALOG if n == 0 else address.shelf if n == last else Shelf.NAMESPACE, name_key(name))
        for n, name in enumerate(address.path)
    )


@lru_cache(maxsize=16_384)
def queue_of(address: Address) -> TableQueue:
    """The queue of commits to a table or view; the same for every spelling of its name."""
    return TableQueue(tuple(name_key(name) for name in address.path))


def find_chain(ledger: Ledger, address: Address, *, since: Seq | None = None) -> Awaitable[Found]:
    """The chain as far as it exists. Raises no error if it is incomplete."""
    return ledger.walk(_steps(address), since=since)


Missing = Callable[[Address, Chain], NotFound]
"""The error for an address of which only this chain exists."""


def missing_step(address: Address, chain: Chain) -> NotFound:
    """The error that names the first object on the path that does not exist."""
    depth = len(chain)
    if depth == 0 and address.kind not in IN_METASTORE:
        return absent(Kind.CATALOG, address.path[:1])
    if depth < len(address.path) - 1:
        return absent(Kind.NAMESPACE, address.path[: depth + 1])
    return absent(address.kind, address.path)


async def reach(
    ports: Ports,
    caller: Caller,
    address: Address,
    privilege: Privilege,
    *,
    kinds: tuple[Kind, ...] = (),
    accepts: Callable[[Chain], bool] | None = None,
    missing: Missing = missing_step,
    since: Seq | None = None,
) -> Chain:
    """The object with its ancestors, for a caller that holds the privilege on it.

    Access is checked before anything about the object is revealed. This function, `reach_parent`, `reach_destination`
    and `reach_by_id` are the only ways from a request to an object, so what a caller without privileges learns is
    decided here. `kinds` are further kinds that may have the name, and `accepts` decides which objects are found.
    `since`: the chain may be as old as this position. Only for requests that change nothing: others would retry on the
    same old state.
    """
    found = await reach_found(
        ports, caller, address, privilege, kinds=kinds, accepts=accepts, missing=missing, since=since
    )
    return found.chain


async def reach_found(
    ports: Ports,
    caller: Caller,
    address: Address,
    privilege: Privilege,
    *,
    kinds: tuple[Kind, ...] = (),
    accepts: Callable[[Chain], bool] | None = None,
    missing: Missing = missing_step,
    since: Seq | None = None,
) -> Found:
    """`reach`, with the position of the ledger at which the chain was read."""
    found = await find_chain(ports.ledger, address, since=since)
    chain = found.chain
    exists = len(chain) == len(address.path) and (chain[-1].kind is address.kind or chain[-1].kind in kinds)
    hidden = partial(_hidden, ports, caller, address, chain, missing)
    if exists:
        require(ports.access, caller, privilege, chain, hidden=hidden)
    if not exists or (accepts is not None and not accepts(chain)):
        raise hidden()
    return found


def _hidden(ports: Ports, caller: Caller, address: Address, chain: Chain, missing: Missing) -> NotFound:
    """The error for a missing object. It reveals no ancestor that the caller may not learn of."""
    known = 0
    while known < len(chain) and ports.access.reveals(caller, chain[: known + 1]):
        known += 1
    return missing(address, chain[:known])


async def reach_parent(ports: Ports, caller: Caller, address: Address) -> tuple[Chain, Securable | None]:
    """The chain above an address, for a caller that may create the object there, and the object that has the name."""
    chain = (await find_chain(ports.ledger, address)).chain
    depth = len(address.path)
    above, holder = (chain[:-1], chain[-1]) if len(chain) == depth else (chain, None)
    hidden = partial(_hidden, ports, caller, address, above, missing_step)
    if len(above) < depth - 1:
        raise hidden()
    require(ports.access, caller, creation_of(address.kind), above, hidden=hidden)
    return above, holder


async def reach_destination(
    ports: Ports, caller: Caller, address: Address, present: SecurableId
) -> tuple[Chain, Securable | None]:
    """`reach_parent` for an object that the caller may move. It needs no privilege on the parent that it has now."""
    chain = (await find_chain(ports.ledger, address)).chain
    above = chain[: len(address.path) - 1]
    if len(above) == len(address.path) - 1 and (above[-1].id if above else ports.ledger.root) == present:
        return above, chain[-1] if len(chain) > len(above) else None
    return await reach_parent(ports, caller, address)


async def find_parent(ledger: Ledger, address: Address) -> tuple[Chain, Securable | None]:
    """`reach_parent` without the access check, for a caller that was authorised on an object in the parent."""
    chain = (await find_chain(ledger, address)).chain
    depth = len(address.path)
    above, holder = (chain[:-1], chain[-1]) if len(chain) == depth else (chain, None)
    if len(above) < depth - 1:
        raise missing_step(address, above)
    return above, holder


async def reach_by_id(
    ports: Ports, caller: Caller, id: str, privilege: Privilege, *, kind: Kind | None = None
) -> Chain:
    """The live object of an id with its ancestors, for a caller that holds the privilege on it."""
    chain = await find_by_id(ports.ledger, id)
    if not chain or (kind is not None and chain[-1].kind is not kind):
        raise absent_id(kind, id)
    require(ports.access, caller, privilege, chain, hidden=lambda: absent_id(kind, id))
    return chain


async def find_by_id(ledger: Ledger, id: str) -> Chain:
    """The live object of an id with its ancestors; empty if there is none."""
    chain = (await ledger.lineage(SecurableId(id))).chain if is_id(id) else ()
    for part in chain:  # not `all`: a generator costs as much as the lookup
        if not part.is_live:
            return ()
    return chain
