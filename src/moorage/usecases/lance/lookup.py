"""Finding Lance tables by name. What another format keeps under that name is not one of them."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from moorage.core.callers import Caller
from moorage.core.errors import InvalidInput, NameTaken, NotFound, SecurableNotFound, TableNotFound
from moorage.core.locations import require_location
from moorage.core.names import require_path
from moorage.core.privileges import Privilege
from moorage.core.securables import MAIN, Head, Kind, Securable
from moorage.formats.lance.refs import BRANCHES, ref_path
from moorage.usecases.catalog.addresses import Address, Chain, missing_step, reach
from moorage.usecases.ports import Ports

LANCE: Final = "lance"


def space_at(names: tuple[str, ...], field: str = "id") -> Address | None:
    """A namespace by its names: the first is a catalog; without any it is the root."""
    if not names:
        return None
    return Address(Kind.CATALOG if len(names) == 1 else Kind.NAMESPACE, require_path(names, field))


@lru_cache(maxsize=16_384)
def table_at(names: tuple[str, ...], field: str = "id") -> Address:
    """A table by its names: that of the catalog, of namespaces, if there are any, and its own."""
    if len(require_path(names, field)) == 1:
        raise InvalidInput(
            f"a table lives in a namespace: create one, say ['main'], and call the table ['main', {names[0]!r}]",
            field=field,
        )
    return Address(Kind.TABLE, names)


def is_lance(securable: Securable) -> bool:
    return securable.doc.table is not None and securable.doc.table.format == LANCE


async def find_table(ports: Ports, caller: Caller, address: Address, privilege: Privilege) -> Chain:
    """The Lance table with its ancestors."""
    return await reach(ports, caller, address, privilege, accepts=is_lance, missing=_missing)


def _missing(address: Address, chain: Chain) -> NotFound:
    if len(chain) == len(address.path) and chain[-1].kind is address.kind:
        return TableNotFound(f"table '{address}' is not a Lance table", name=str(address), kind=str(Kind.TABLE))
    return missing_step(address, chain)


def location_of(table: Securable) -> str:
    """The place as Lance's clients take it."""
    return require_location(table).rstrip("/")


async def newest(ports: Ports, table: Securable, ref: str) -> Head | None:
    """The newest version of a line; None where there is none yet."""
    return table.head if ref == MAIN else await ports.ledger.head(table.id, ref)


async def require_line(ports: Ports, table: Securable, ref: str) -> Head | None:
    """The same, but a branch without a version does not exist."""
    head = await newest(ports, table, ref)
    if ref != MAIN and (head is None or await is_deserted(ports, table, head)):
        raise no_branch(table, ref)
    return head


async def is_deserted(ports: Ports, table: Securable, head: Head) -> bool:
    """Whether the newest manifest of a branch is gone: then a client has deleted the branch, and told nobody."""
    rows = await ports.ledger.versions(table.id, head.ref, first=head.version, last=head.version)
    keys = [key for row in rows for key in (row.publish.target if row.publish else row.file, row.file)]
    for key in keys:
        if not await ports.storage.is_gone(require_location(table), key, ask=True):
            return False
    return bool(keys)


async def is_deleted_branch(ports: Ports, table: Securable, ref: str, staged: str) -> bool:
    """Whether a client has deleted the branch of a version that is still to be published.

    Its file in `_refs/` goes first and then its folder, where the version was staged. A branch that is only being
    made has its first version, and no such file yet.
    """
    if ref == MAIN:
        return False
    files = (staged, ref_path(BRANCHES, ref))
    return await ports.storage.is_gone(require_location(table), *files, ask=True)


def no_branch(table: Securable, ref: str) -> SecurableNotFound:
    return SecurableNotFound(f"table '{table.name}' has no branch '{ref}'", field="branch", kind="branch")


def taken(address: Address, holder: Securable) -> NameTaken:
    """The refusal of a name that a table or view has."""
    return NameTaken(f"{holder.kind} '{address}' already exists", field="id", name=str(address), kind=str(holder.kind))
