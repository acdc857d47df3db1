"""A server without object stores: all files are on local disk."""

from __future__ import annotations

from collections.abc import Mapping

from moorage.core.errors import Forbidden, InvalidInput
from moorage.core.securables import Securable
from moorage.storage.port import ClientRequest, Delegation


class NoObjectStores:
    """The port `ObjectStores` of such a server."""

    async def find(self, location: str) -> Delegation | None:
        return None

    async def area_of(self, location: str) -> tuple[Securable, ...]:
        return ()

    async def parse(
        self, *, method: str, uri: str, headers: Mapping[str, tuple[str, ...]], body: str | None
    ) -> tuple[Delegation, ClientRequest]:
        raise Forbidden("this server has no object store, so it signs no requests")

    async def locations(self) -> tuple[str, ...]:
        return ()

    async def sign(self) -> bool:
        return False

    async def vend(self) -> bool:
        return False

    async def require_usable(self, url: str, credential: Securable) -> None:
        raise InvalidInput(f"this server has no object stores, so it cannot use '{url}'", field="url")
