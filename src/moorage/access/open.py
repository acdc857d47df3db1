"""Open mode: everybody is `local` and may do everything. For loopback only; `serve` sees to that.

Browsers reach loopback too, on behalf of any page that they show. They say whose page it is, so pages of other
sites are refused: otherwise whoever runs a catalog could lose it by following a link. A site may also let its own
name lead here, once its page is shown. The browser then takes the catalog for that site and says nothing, but it
still asks for it by that name: so a name that is not the catalog's is refused, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from urllib.parse import urlsplit

from moorage.access.port import Headers
from moorage.core.callers import LOCAL, Caller
from moorage.core.errors import Forbidden
from moorage.core.hosts import is_loopback
from moorage.core.privileges import Privilege
from moorage.core.securables import Securable


class OpenAccess:
    authenticates = False

    def __init__(self, public_url: str | None = None) -> None:
        self._public = None if public_url is None else _host(public_url)

    async def authenticate(self, headers: Headers) -> Caller:
        host, origin = headers.raw(b"host"), headers.raw(b"origin")
        if host and not _is_own(b"//" + host, self._public):
            raise Forbidden(
                f"this catalog has no authentication, so it is not reached as {host.decode('latin-1')!r}; if that is "
                "its own name, start it with --public-url"
            )
        if origin is not None and not _is_own(origin, self._public):
            raise Forbidden(
                f"pages from {origin.decode('latin-1')!r} may not use this catalog; its own address is set by "
                "public_url"
            )
        return LOCAL

    def allow(self, caller: Caller, privilege: Privilege, chain: Sequence[Securable]) -> bool:
        return True


@lru_cache(maxsize=1024)
def _is_own(url: bytes, public: str | None) -> bool:
    """Whether a URL leads to this machine, or to the host by which the catalog is known."""
    host = _host(url.decode("latin-1"))
    return host is not None and (host == public or host.endswith(".localhost") or is_loopback(host))


def _host(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None
