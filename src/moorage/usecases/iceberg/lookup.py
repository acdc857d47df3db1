"""Lookup of Iceberg tables and views by name, and of Delta tables that can be read as Iceberg tables.

Other tables of other formats are treated as missing.
"""

from __future__ import annotations

from typing import Final

from moorage.core.absence import not_found_type
from moorage.core.callers import Caller
from moorage.core.errors import CatalogNotFound, Damaged, NameTaken, NotFound, Unsupported
from moorage.core.ids import Seq
from moorage.core.privileges import Privilege
from moorage.core.securables import Head, Securable
from moorage.usecases.catalog.addresses import Address, Chain, reach
from moorage.usecases.ports import Ports

ICEBERG: Final = "iceberg"
SNAPSHOT: Final = "snapshot_id"
"""The detail of a version in the ledger: the current snapshot of the table."""


def iceberg_name(address: Address) -> str:
    """The name as Iceberg clients write it: without the catalog."""
    return ".".join(address.path[1:])


def is_iceberg(securable: Securable) -> bool:
    return securable.doc.table is not None and securable.doc.table.format == ICEBERG


def is_visible(ports: Ports, securable: Securable, above: Chain) -> bool:
    """Whether Iceberg clients can load and list it. A table that was registered through Unity has no metadata."""
    if is_iceberg(securable):
        return securable.head is not None
    return ports.formats.readable_as(securable, above) == ICEBERG


async def find_relation(
    ports: Ports, caller: Caller, address: Address, privilege: Privilege, *, since: Seq | None = None
) -> Chain:
    """The table or view with its ancestors. `since`: see `reach`.

    A missing namespace is reported as a missing table. Iceberg clients look for `ns.table.files` as a table in the
    namespace `ns.table` first, and try the metadata table only after that error.
    """

    def accepts(chain: Chain) -> bool:
        return is_visible(ports, chain[-1], chain[:-1])

    chain = await reach(ports, caller, address, privilege, accepts=accepts, missing=_missing, since=since)
    if privilege not in (Privilege.BROWSE, Privilege.READ) and not is_iceberg(chain[-1]):
        raise Unsupported(
            f"{iceberg_name(address)} is a Delta table: Iceberg clients can only read it; change it with a Delta client"
        )
    return chain


def _missing(address: Address, chain: Chain) -> NotFound:
    if not chain:
        return CatalogNotFound(f"Warehouse does not exist: {address.path[0]}", name=address.path[0])
    return not_found_type(address.kind)(f"{str(address.kind).capitalize()} does not exist: {iceberg_name(address)}")


def require_head(table: Securable) -> Head:
    if table.head is None:
        raise Damaged(f"{table.kind} '{table.name}' has no version", table=table.id)
    return table.head


def name_taken(address: Address, holder: Securable) -> NameTaken:
    """The error for a name that another table or view has."""
    found = str(holder.kind).capitalize()
    how = "already exists" if holder.kind is address.kind else "with same name already exists"
    return NameTaken(f"{found} {how}: {iceberg_name(address)}", field="name", kind=str(holder.kind))
