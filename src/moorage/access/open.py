"""Open mode: every caller is `local` and may do everything. `serve` allows it on loopback addresses only.

On a ledger that has an administrator, every caller is the administrator, who then owns what is created.

A browser can reach loopback for any page that it shows, and sends the page's origin. Requests from pages of other
sites are refused. Otherwise, a user who opens a malicious link could lose the catalog.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from moorage.access.port import Headers
from moorage.core.callers import LOCAL, Caller
from moorage.core.credentials import Credential
from moorage.core.errors import Forbidden
from moorage.core.hosts import is_loopback
from moorage.core.principals import ADMIN
from moorage.core.privileges import Privilege
from moorage.core.securables import Securable


class OpenAccess:
    authenticates = False

    def __init__(
        self, public_url: str | None = None, origins: Sequence[str] = (), *, has_administrator: bool = False
    ) -> None:
        """`origins`: other sites whose pages may use the catalog."""
        self._caller = Caller(id=ADMIN, name=ADMIN, is_admin=True) if has_administrator else LOCAL
        self._own = None if public_url is None else _host(public_url)
        self._origins = frozenset(origins)

    async def authenticate(self, credential: Credential | None, headers: Headers) -> Caller:
        origin = headers.get("origin")
        if origin is not None and origin not in self._origins and not self._is_own(origin):
            raise Forbidden(
                f"pages from {origin!r} may not use this catalog; if that is its own address, set public_url; "
                "if you trust the page, add its origin to cors_origins"
            )
        return self._caller

    def allow(self, caller: Caller, privilege: Privilege, chain: Sequence[Securable]) -> bool:
        return True

    def reveals(self, caller: Caller, chain: Sequence[Securable]) -> bool:
        return True

    def _is_own(self, origin: str) -> bool:
        host = _host(origin)
        return host is not None and (host == self._own or host.endswith(".localhost") or is_loopback(host))


def _host(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None
