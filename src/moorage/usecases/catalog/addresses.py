"""Finding objects by name: a walk down the tree, with errors that name the missing step."""

from __future__ import annotations

from collections.abc import Awaitable
from functools import lru_cache

import msgspec

from moorage.core.errors import (
    CatalogNotFound,
    NamespaceNotFound,
    NotFound,
    SecurableNotFound,
    TableNotFound,
    ViewNotFound,
)
from moorage.core.ids import SecurableId, is_id
from moorage.core.names import name_key, require_name, require_path
from moorage.core.securables import SHELF_OF, Kind, Securable, Shelf
from moorage.ledger.port import Found, Ledger, Step

_NOT_FOUND: dict[Kind, type[NotFound]] = {
    Kind.CATALOG: CatalogNotFound,
    Kind.NAMESPACE: NamespaceNotFound,
    Kind.TABLE: TableNotFound,
    Kind.VIEW: ViewNotFound,
}


class Address(msgspec.Struct, frozen=True, cache_hash=True):
    """A kind of object and its path of names, the catalog first."""

    kind: Kind
    path: tuple[str, ...]

    @property
    def parent(self) -> Address | None:
        """Where it stands; None for a catalog, which stands in the metastore."""
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
    """A namespace of a catalog; `field` is where the levels came from, for the refusal of a wrong one."""
    return Address(Kind.NAMESPACE, require_path((*catalog(catalog_name).path, *levels), field))


@lru_cache(maxsize=4096)
def table(space: Address, name: str) -> Address:
    return Address(Kind.TABLE, (*space.path, require_name(name, "table")))


@lru_cache(maxsize=16_384)
def _steps(address: Address) -> tuple[Step, ...]:
    last = len(address.path) - 1
    return tuple(
        Step(Shelf.CATALOG if n == 0 else address.shelf if n == last else Shelf.NAMESPACE, name_key(name))
        for n, name in enumerate(address.path)
    )


def look(ledger: Ledger, address: Address) -> Awaitable[Found]:
    """The chain as far as it exists; nothing is raised."""
    return ledger.walk(_steps(address))


async def find(ledger: Ledger, address: Address) -> tuple[Securable, ...]:
    """The object with its ancestors, outermost first; the error names the first that is missing."""
    found = await look(ledger, address)
    require_found(address, found.chain)
    return found.chain


async def find_parent(ledger: Ledger, address: Address) -> tuple[tuple[Securable, ...], Securable | None]:
    """The chain above an address, which must exist, and whatever bears its name now."""
    chain = (await look(ledger, address)).chain
    if len(chain) == len(address.path):
        return chain[:-1], chain[-1]
    require_found(address, chain, upto=len(address.path) - 1)
    return chain, None


def require_found(address: Address, chain: tuple[Securable, ...], *, upto: int | None = None) -> None:
    missing = len(chain)
    if missing >= (len(address.path) if upto is None else upto):
        last = chain[-1] if chain else None
        # A view where a table was asked for holds the name, but is not what was asked for.
        if upto is None and last is not None and last.kind is not address.kind:
            raise _not_found(address.kind, address.path)
        return
    if missing == 0:
        raise _not_found(Kind.CATALOG, address.path[:1])
    if missing < len(address.path) - 1:
        raise _not_found(Kind.NAMESPACE, address.path[: missing + 1])
    raise _not_found(address.kind, address.path)


def _not_found(kind: Kind, path: tuple[str, ...]) -> NotFound:
    name = ".".join(path)
    return missing_kind(kind)(f"{kind} '{name}' does not exist", name=name, kind=str(kind))


def missing_kind(kind: Kind | None) -> type[NotFound]:
    """The error that says that no object of this kind is there."""
    return SecurableNotFound if kind is None else _NOT_FOUND.get(kind, SecurableNotFound)


async def look_by_id(ledger: Ledger, id: str) -> tuple[Securable, ...]:
    """The live object of an id with its ancestors; nothing is raised."""
    chain = (await ledger.lineage(SecurableId(id))).chain if is_id(id) else ()
    return chain if all(part.is_live for part in chain) else ()


async def find_by_id(ledger: Ledger, id: str, kind: Kind | None = None) -> tuple[Securable, ...]:
    """The live object of an id with its ancestors."""
    chain = await look_by_id(ledger, id)
    if not chain or (kind is not None and chain[-1].kind is not kind):
        what = kind or "object"
        raise missing_kind(kind)(f"no {what} has the id '{id}'", id=id)
    return chain
