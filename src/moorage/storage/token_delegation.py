"""What the delegation of Google's and Azure's stores has in common: credentials for folders, and no signed requests."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from moorage.core.errors import Forbidden, Unavailable, Unsupported
from moorage.core.vended import StoreSettings, VendedSas, VendedToken
from moorage.storage.port import ClientRequest

_TIMEOUT_SECONDS: Final = 10
_MOST_CACHED: Final = 10_000

Request = Callable[..., Awaitable[VendedToken | VendedSas]]
"""Requests a credential for locations: `request(locations, writes=…)`."""
Presign = Callable[..., Awaitable[Sequence[str]]]
"""Makes URLs that read one object each: `presign(root, paths, seconds=…)`."""


class TokenDelegation:
    """The port `Delegation` for a store whose credentials are tokens. They are used for half of their lifetime."""

    def __init__(self, locations: tuple[str, ...], request: Request, presign: Presign) -> None:
        self._locations = locations
        self._request = request
        self._presign = presign
        self._cached: dict[tuple[tuple[str, ...], bool], tuple[VendedToken | VendedSas, float]] = {}
        self._lock = asyncio.Lock()

    @property
    def locations(self) -> tuple[str, ...]:
        return self._locations

    @property
    def settings(self) -> StoreSettings | None:
        return None

    def allows(self, location: str) -> bool:
        return location.startswith(self._locations)

    async def signs(self) -> bool:
        return False

    async def vends(self) -> bool:
        return True

    async def vend(self, locations: Sequence[str], *, writes: bool) -> VendedToken | VendedSas:
        key = (tuple(locations), writes)
        async with self._lock:
            found, until = self._cached.get(key, (None, 0.0))
            if found is not None and until > time.monotonic():
                return found
            vended = await self._request(key[0], writes=writes)
            if len(self._cached) >= _MOST_CACHED:
                self._cached.clear()
            lifetime = vended.expires_at_ms / 1000 - time.time()
            self._cached[key] = vended, time.monotonic() + lifetime / 2
            return vended

    async def url_seconds(self, wanted: int) -> int:
        return wanted

    async def presign(self, root: str, paths: Sequence[str], *, seconds: int) -> list[str]:
        if not self.allows(root):
            raise Forbidden(f"{root!r} is outside the locations that this server may use")
        return list(await self._presign(root, paths, seconds=seconds))

    def parse(
        self, *, method: str, uri: str, headers: Mapping[str, tuple[str, ...]], body: str | None
    ) -> ClientRequest:
        raise Forbidden("requests to this store are not signed for clients")

    async def sign(
        self, request: ClientRequest, locations: Sequence[str], *, now_ms: int
    ) -> dict[str, tuple[str, ...]]:
        raise Unsupported("requests to this store are not signed for clients")


async def post(what: str, url: str, *, headers: Mapping[str, str] | None = None, **body: Any) -> Any:
    """The response to a request for a credential. Raises Unavailable, without the response: it may have secrets."""
    import httpx

    try:
        async with httpx.AsyncClient(timeout=_TIMEOUT_SECONDS) as http:
            answer = await http.post(url, headers=headers, **body)
    except httpx.HTTPError as error:
        raise Unavailable(f"{what} was not issued: {type(error).__name__}") from error
    if answer.status_code != 200:
        raise Unavailable(f"{what} was not issued: the service returned status {answer.status_code}")
    return answer


def require_fields(what: str, found: Mapping[str, Any], *names: str) -> list[Any]:
    """The values of a response; Unavailable if one is missing."""
    if not all(found.get(name) for name in names):
        raise Unavailable(f"{what} was not issued: the response has no {' or '.join(names)}")
    return [found[name] for name in names]
