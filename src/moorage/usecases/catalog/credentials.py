"""What a client needs to reach the files of an object: nothing on local disk, where folders decide."""

from __future__ import annotations

from moorage.access.port import require
from moorage.core.callers import Caller
from moorage.core.errors import InvalidInput, SecurableNotFound, TableNotFound, Unsupported
from moorage.core.privileges import Privilege
from moorage.core.securables import Kind, Securable
from moorage.usecases.catalog.addresses import Address, find_by_id
from moorage.usecases.catalog.models import get_version
from moorage.usecases.catalog.places import parse_place
from moorage.usecases.catalog.staging import require_own
from moorage.usecases.delta.families import require_older_families
from moorage.usecases.delta.lookup import is_managed
from moorage.usecases.ports import Ports


async def for_any_table(ports: Ports, caller: Caller, id: str, *, write: bool) -> str:
    """The place of a table of any format, as clients of the older families ask for it."""
    table = (await _find_table(ports, id))[-1]
    if table.kind is Kind.STAGE or is_managed(table):
        require_older_families(ports.managed_tables)
    return await for_table(ports, caller, id, write=write)


async def for_table(ports: Ports, caller: Caller, id: str, *, write: bool) -> str:
    """The place of a table, or of a staged one for whoever staged it."""
    chain = await _find_table(ports, id)
    if chain[-1].kind is Kind.STAGE:
        require_own(chain[-1], caller)
    return _place_of(ports, caller, chain, write=write)


async def _find_table(ports: Ports, id: str) -> tuple[Securable, ...]:
    try:
        chain = await find_by_id(ports.ledger, id)
    except SecurableNotFound:
        raise TableNotFound(f"no table has the id '{id}'", id=id) from None
    if chain[-1].kind not in (Kind.TABLE, Kind.STAGE):
        raise InvalidInput(f"table_id: '{id}' is the id of a {chain[-1].kind}", field="table_id")
    return chain


async def for_volume(ports: Ports, caller: Caller, id: str, *, write: bool) -> str:
    return _place_of(ports, caller, await find_by_id(ports.ledger, id, Kind.VOLUME), write=write)


async def for_model_version(ports: Ports, caller: Caller, address: Address, number: int, *, write: bool) -> str:
    return _place_of(ports, caller, await get_version(ports, caller, address, number), write=write)


def for_path(ports: Ports, caller: Caller, url: str, *, write: bool, field: str = "url") -> str:
    """A folder that is no object of the catalog yet: somebody is about to register what is in it."""
    require(ports.access, caller, Privilege.CREATE if write else Privilege.READ, ())
    return _reachable_without(parse_place(url, field=field))


def _place_of(ports: Ports, caller: Caller, chain: tuple[Securable, ...], *, write: bool) -> str:
    require(ports.access, caller, Privilege.MODIFY if write else Privilege.READ, chain)
    if chain[-1].doc.location is None:
        raise InvalidInput(f"{chain[-1].kind} '{chain[-1].name}' has no files", field="table_id")
    return _reachable_without(chain[-1].doc.location)


def _reachable_without(place: str) -> str:
    if not place.startswith("file:"):
        raise Unsupported(
            f"this server vends no credentials for '{place}': files on local disk need none, and Iceberg's clients "
            "reach object stores by remote signing"
        )
    return place
