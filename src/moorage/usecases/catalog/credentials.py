"""What a client needs to reach the files of an object. Files on local disk need no credentials."""

from __future__ import annotations

from typing import Final

from moorage.access.port import require
from moorage.core.callers import Caller
from moorage.core.errors import InvalidInput, SecurableNotFound, TableNotFound, Unsupported
from moorage.core.ids import SecurableId
from moorage.core.locations import parse_location
from moorage.core.privileges import Privilege
from moorage.core.securables import Kind
from moorage.usecases.catalog.addresses import Address, Chain, reach_by_id
from moorage.usecases.catalog.models import reach_version
from moorage.usecases.catalog.staging import require_staged_by
from moorage.usecases.local_state import CacheKind
from moorage.usecases.ports import Ports

WRITE_ACCESS: Final = CacheKind[SecurableId, int]("last write access to tables", limit=65_536)
"""When this server last told a client how to write the files of a table. Upkeep waits for such a client."""


async def for_table(ports: Ports, caller: Caller, id: str, *, write: bool) -> str:
    """The location of a table, or of a staging table for the caller that staged it."""
    chain = await reach_table(ports, caller, id, write=write)
    if chain[-1].kind is Kind.STAGING_TABLE:
        require_staged_by(chain[-1], caller)
    if write:
        ports.local.cache(WRITE_ACCESS).put(chain[-1].id, ports.now_ms())
    return _location_of(chain)


async def reach_table(ports: Ports, caller: Caller, id: str, *, write: bool) -> Chain:
    """The table or staging table of an id, for a caller that may read or write its files."""
    try:
        chain = await reach_by_id(ports, caller, id, _privilege(write=write))
    except SecurableNotFound:
        raise TableNotFound(f"no table has the id '{id}'", id=id) from None
    if chain[-1].kind not in (Kind.TABLE, Kind.STAGING_TABLE):
        raise InvalidInput(f"table_id: '{id}' is the id of a {chain[-1].kind}", field="table_id")
    return chain


def _privilege(*, write: bool) -> Privilege:
    return Privilege.MODIFY if write else Privilege.READ


async def for_volume(ports: Ports, caller: Caller, id: str, *, write: bool) -> str:
    return _location_of(await reach_by_id(ports, caller, id, _privilege(write=write), kind=Kind.VOLUME))


async def for_model_version(ports: Ports, caller: Caller, address: Address, number: int, *, write: bool) -> str:
    return _location_of(await reach_version(ports, caller, address, number, _privilege(write=write)))


def for_path(ports: Ports, caller: Caller, url: str, *, write: bool, field: str = "url") -> str:
    """The location of a folder that belongs to no object yet: a client is about to register the files in it."""
    require(ports.access, caller, Privilege.MODIFY if write else Privilege.READ, ())
    return _require_local(parse_location(url, field=field))


def _location_of(chain: Chain) -> str:
    if chain[-1].doc.location is None:
        raise InvalidInput(f"{chain[-1].kind} '{chain[-1].name}' has no files", field="table_id")
    return _require_local(chain[-1].doc.location)


def _require_local(location: str) -> str:
    if not location.startswith("file:"):
        raise Unsupported(
            f"this server vends no credentials for '{location}': files on local disk need none, and Iceberg's clients "
            "reach object stores by remote signing"
        )
    return location
