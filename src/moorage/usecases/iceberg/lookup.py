"""Finding Iceberg tables and views by name, and Delta tables that can be read as if they were Iceberg tables.

What else another format keeps under that name is not one of them.
"""

from __future__ import annotations

from typing import Final

from moorage.core.callers import Caller
from moorage.core.errors import CatalogNotFound, Damaged, NameTaken, NotFound, Unsupported
from moorage.core.privileges import Privilege
from moorage.core.securables import Head, Securable
from moorage.usecases.catalog.addresses import Address, Chain, missing_kind, reach
from moorage.usecases.formats import Projection
from moorage.usecases.ports import Ports

ICEBERG: Final = "iceberg"


def shown(address: Address) -> str:
    """The name as Iceberg's clients write it: they know no catalog above the namespace."""
    return ".".join(address.path[1:])


def is_iceberg(securable: Securable) -> bool:
    return securable.doc.table is not None and securable.doc.table.format == ICEBERG


def projection_of(ports: Ports, table: Securable) -> Projection | None:
    """How a table of another format is read as an Iceberg table; None if it is one, or cannot be read as one."""
    found = None if is_iceberg(table) else ports.formats.project(table)
    return found if found is not None and found.format == ICEBERG else None


def is_seen(ports: Ports, securable: Securable) -> bool:
    """Whether Iceberg's clients see it at all."""
    return is_iceberg(securable) or projection_of(ports, securable) is not None


async def find_relation(ports: Ports, caller: Caller, address: Address, privilege: Privilege) -> Chain:
    """The table or view with its ancestors.

    A missing namespace is a missing table too: Iceberg's clients look for `ns.table.files` as a table in
    the namespace `ns.table`, and go on to the metadata table only when they hear just that.
    """
    chain = await reach(
        ports, caller, address, privilege, accepts=lambda found: is_seen(ports, found), missing=_missing
    )
    if privilege not in (Privilege.BROWSE, Privilege.READ) and not is_iceberg(chain[-1]):
        raise Unsupported(f"{shown(address)} is a Delta table: here it can be read, and changed only as a Delta table")
    return chain


def _missing(address: Address, chain: Chain) -> NotFound:
    if not chain:
        return CatalogNotFound(f"Warehouse does not exist: {address.path[0]}", name=address.path[0])
    return missing_kind(address.kind)(f"{str(address.kind).capitalize()} does not exist: {shown(address)}")


def head_of(table: Securable) -> Head:
    if table.head is None:
        raise Damaged(f"{table.kind} '{table.name}' has no version", table=table.id)
    return table.head


def taken(address: Address, holder: Securable) -> NameTaken:
    """The refusal of a name that a table or view has."""
    found = str(holder.kind).capitalize()
    how = "already exists" if holder.kind is address.kind else "with same name already exists"
    return NameTaken(f"{found} {how}: {shown(address)}", field="name", kind=str(holder.kind))
