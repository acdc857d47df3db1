"""Whether this server can reach a location, and whether a caller may choose it."""

from __future__ import annotations

from moorage.access.port import require_in_area
from moorage.core.callers import Caller
from moorage.core.privileges import Privilege
from moorage.usecases.ports import Ports


async def require_reachable(ports: Ports, location: str) -> None:
    """Raise InvalidInput for a location that this server may not use: it could never delete the files there."""
    await ports.storage.is_missing(location, "reachable")


async def require_choice(ports: Ports, caller: Caller, location: str) -> None:
    """Refuse a caller that may not choose this location, before the server reads anything there.

    `settle` checks the same for the location that a table gets. But by then an error could tell what is at the
    location: whether there is a file, and what kind of file it is.
    """
    require_in_area(ports.access, caller, Privilege.CHOOSE_LOCATION, await ports.stores.area_of(location))
