"""Finding Lance tables by name. A table of another format under that name is not found."""

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


def namespace_address(names: tuple[str, ...], field: str = "id") -> Address | None:
    """The address of a namespace. The first name is a catalog; no names mean the root."""
    if not names:
        return None
    return Address(Kind.CATALOG if len(names) == 1 else Kind.NAMESPACE, require_path(names, field))


@lru_cache(maxsize=16_384)
def table_address(names: tuple[str, ...], field: str = "id") -> Address:
    """The address of a table: the catalog's name, the names of namespaces, if any, and the table's own name."""
    if len(require_path(names, field)) == 1:
        raise InvalidInput(
            f"table {names[0]!r} has no namespace; create one, for example ['main'], "
            f"and name the table ['main', {names[0]!r}]",
            field=field,
        )
    return Address(Kind.TABLE, names)


def is_lance(securable: Securable) -> bool:
    return securable.doc.table is not None and securable.doc.table.format == LANCE


async def find_table(ports: Ports, caller: Caller, address: Address, privilege: Privilege) -> Chain:
    """The Lance table, after its ancestors."""
    return await reach(ports, caller, address, privilege, accepts=lambda chain: is_lance(chain[-1]), missing=_missing)


def _missing(address: Address, chain: Chain) -> NotFound:
    if len(chain) == len(address.path) and chain[-1].kind is address.kind:
        return TableNotFound(f"table '{address}' is not a Lance table", name=str(address), kind=str(Kind.TABLE))
    return missing_step(address, chain)


def client_location(table: Securable) -> str:
    """The table's location as Lance's clients expect it: without the trailing slash."""
    return require_location(table).rstrip("/")


async def line_head(ports: Ports, table: Securable, ref: str) -> Head | None:
    """The head of a line; None if it has no version yet."""
    return table.head if ref == MAIN else await ports.ledger.head(table.id, ref)


async def require_line(ports: Ports, table: Securable, ref: str) -> Head | None:
    """The head of a line. A branch without a version does not exist and is refused."""
    head = await line_head(ports, table, ref)
    if ref != MAIN and (head is None or await is_head_missing(ports, table, head)):
        raise branch_not_found_error(table, ref)
    return head


async def is_head_missing(ports: Ports, table: Securable, head: Head) -> bool:
    """Whether the newest manifest of a branch is missing: then a client deleted the branch without the catalog."""
    rows = await ports.ledger.versions(table.id, head.ref, first=head.version, last=head.version)
    keys = [key for row in rows for key in (row.publish.target if row.publish else row.file, row.file)]
    for key in keys:
        if not await ports.storage.is_missing(require_location(table), key, remote=True):
            return False
    return bool(keys)


async def is_deleted_branch(ports: Ports, table: Securable, ref: str, staged: str) -> bool:
    """Whether a client deleted the branch of a version that is not published yet.

    The client deletes the branch's file in `_refs/` first, then its folder, which has the staged manifest. Both must
    be missing: a branch that is being created has its first version, but no file in `_refs/` yet.
    """
    if ref == MAIN:
        return False
    files = (staged, ref_path(BRANCHES, ref))
    return await ports.storage.is_missing(require_location(table), *files, remote=True)


def branch_not_found_error(table: Securable, ref: str) -> SecurableNotFound:
    return SecurableNotFound(f"table '{table.name}' has no branch '{ref}'", field="branch", kind="branch")


def name_taken_error(address: Address, holder: Securable) -> NameTaken:
    """The error for a name that a table or view already has."""
    return NameTaken(f"{holder.kind} '{address}' already exists", field="id", name=str(address), kind=str(holder.kind))
