"""Open mode: everybody is `local` and may do everything. For loopback only; `serve` sees to that."""

from __future__ import annotations

from collections.abc import Sequence

from moorage.access.port import Headers
from moorage.core.callers import LOCAL, Caller
from moorage.core.privileges import Privilege
from moorage.core.securables import Securable


class OpenAccess:
    authenticates = False

    async def authenticate(self, headers: Headers) -> Caller:
        return LOCAL

    def allow(self, caller: Caller, privilege: Privilege, chain: Sequence[Securable]) -> bool:
        return True
