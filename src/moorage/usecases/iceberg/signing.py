"""Signatures for requests to the object store, for clients that have no key to it. Each is limited to one table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from moorage.core.callers import Caller
from moorage.core.errors import Forbidden, TableNotFound, Unsupported
from moorage.core.locations import assigned_location_around
from moorage.core.privileges import Privilege
from moorage.storage.port import ClientRequest
from moorage.usecases.catalog.addresses import Address, reach_parent
from moorage.usecases.catalog.staging import find_staging_table_at
from moorage.usecases.iceberg.lookup import find_relation
from moorage.usecases.ports import Ports

_ON_LOCAL_DISK = (
    "this server stores tables on local disk, which needs no signatures; turn remote signing off in the client"
)
_NOT_RESTRICTABLE = (
    "the object store of this server cannot restrict a request to one table, so the server signs none; "
    "give the client a key of its own"
)


class Signed(NamedTuple):
    headers: dict[str, tuple[str, ...]]
    reads_only: bool


async def sign_request(
    ports: Ports,
    caller: Caller,
    address: Address,
    *,
    method: str,
    uri: str,
    headers: Mapping[str, tuple[str, ...]],
    body: str | None,
) -> Signed:
    """The headers that authorise a request to the files of a table, or Forbidden.

    The signature grants the server's own rights. So a request is signed only if the caller has the same rights on the
    table, and if every file of the request is in a location of the table.
    """
    if not await ports.stores.sign():
        await find_relation(ports, caller, address, Privilege.BROWSE)
        raise Unsupported(_NOT_RESTRICTABLE if await ports.stores.locations() else _ON_LOCAL_DISK)
    store, request = await ports.stores.parse(method=method, uri=uri, headers=headers, body=body)
    locations = await _locations_of(ports, caller, address, request)
    signable = [each for each in locations if store.allows(each)]
    if not signable or not await store.signs():
        raise Unsupported(f"the files of the table are at '{locations[0]}', where this server signs no requests")
    request.require_within(*signable)
    return Signed(await store.sign(request, signable, now_ms=ports.now_ms()), reads_only=not request.writes)


async def _locations_of(ports: Ports, caller: Caller, address: Address, request: ClientRequest) -> tuple[str, ...]:
    """The current and former locations of the table: older snapshots have their files in former ones."""
    privilege = Privilege.MODIFY if request.writes else Privilege.READ
    try:
        table = (await find_relation(ports, caller, address, privilege))[-1]
    except TableNotFound:
        return (await _staging_location(ports, caller, address, request),)
    if not table.locations:
        raise Forbidden(f"table '{table.name}' has no files")
    return table.locations


async def _staging_location(ports: Ports, caller: Caller, address: Address, request: ClientRequest) -> str:
    """The location of a staging table, which its client writes to before it creates the table; or TableNotFound."""
    above, holder = await reach_parent(ports, caller, address)
    location = assigned_location_around(ports.roots, above, "tables", request.url)
    staged = None if location is None else await find_staging_table_at(ports, caller, above, location)
    if location is None or staged is None or holder is not None:
        raise TableNotFound(f"Table does not exist: {'.'.join(address.path[1:])}")
    return location
