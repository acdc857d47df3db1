"""Requests to the object store, signed for clients that have no key to it: one table at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from moorage.core.callers import Caller
from moorage.core.errors import Forbidden, TableNotFound, Unsupported
from moorage.core.locations import assigned_location_around
from moorage.core.privileges import Privilege
from moorage.storage.port import ClientRequest
from moorage.usecases.catalog.addresses import Address, reach_parent
from moorage.usecases.catalog.staging import find_stage_at
from moorage.usecases.iceberg.lookup import find_relation
from moorage.usecases.ports import Ports

_NOT_HERE = "files lie on local disk here, where requests need no signature; turn remote signing off"
_NOT_SAFE = "the object store here cannot restrict a request to one table, so none are signed; bring a key of your own"


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
    """The headers that let a request through to the files of a table, or Forbidden.

    Whoever signs lends its own rights, so a request is signed only if the caller may do to the table what it would
    do to the files, and if each of them lies in a place of the table.
    """
    store = ports.delegation
    if store is None or not await store.signs():
        await find_relation(ports, caller, address, Privilege.BROWSE)
        raise Unsupported(_NOT_HERE if store is None else _NOT_SAFE)
    request = store.parse(method=method, uri=uri, headers=headers, body=body)
    places = await _places_of(ports, caller, address, request)
    held = [place for place in places if store.holds(place)]
    if not held:
        raise Unsupported(f"the files of the table are at '{places[0]}', where this server signs nothing")
    request.require_within(*held)
    return Signed(await store.sign(request, held, now_ms=ports.now_ms()), reads_only=not request.writes)


async def _places_of(ports: Ports, caller: Caller, address: Address, request: ClientRequest) -> tuple[str, ...]:
    """The locations of the table, current and former: its older snapshots still have their files in those."""
    privilege = Privilege.MODIFY if request.writes else Privilege.READ
    try:
        table = (await find_relation(ports, caller, address, privilege))[-1]
    except TableNotFound:
        return (await _staged_place_of(ports, caller, address, request),)
    if not table.locations:
        raise Forbidden(f"table '{table.name}' has no files")
    return table.locations


async def _staged_place_of(ports: Ports, caller: Caller, address: Address, request: ClientRequest) -> str:
    """The place of a table that its client fills before it creates it.

    TableNotFound if it is not the place of a table to come.
    """
    above, holder = await reach_parent(ports, caller, address)
    place = assigned_location_around(ports.roots, above, "tables", request.url)
    stage = None if place is None else await find_stage_at(ports, caller, above, place)
    if place is None or stage is None or holder is not None:
        raise TableNotFound(f"Table does not exist: {'.'.join(address.path[1:])}")
    return place
