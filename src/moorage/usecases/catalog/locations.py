"""Whether this server can reach a location."""

from __future__ import annotations

from moorage.usecases.ports import Ports


async def require_reachable(ports: Ports, location: str) -> None:
    """Raise InvalidInput for a location that this server may not use: it could never delete the files there."""
    await ports.storage.is_missing(location, "reachable")
