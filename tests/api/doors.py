"""Ways into the catalog that open mode does not know: callers by name, and doors that stay shut."""

from __future__ import annotations

from collections.abc import Sequence

from moorage.access.port import Headers
from moorage.core.callers import LOCAL, Caller
from moorage.core.credentials import Credential
from moorage.core.errors import Unauthenticated
from moorage.core.privileges import Privilege
from moorage.core.securables import Securable


class NamedCallers:
    """Whoever the `x-caller` header names; everybody may do everything, save those who were locked out."""

    authenticates = True

    def __init__(self) -> None:
        self.locked_out: set[str] = set()

    async def authenticate(self, credential: Credential | None, headers: Headers) -> Caller:
        name = headers.get("x-caller")
        return LOCAL if name is None else Caller(id=name, name=name)

    def allow(self, caller: Caller, privilege: Privilege, chain: Sequence[Securable]) -> bool:
        return caller.id not in self.locked_out


class NobodyMay:
    """Knows everybody and allows nothing."""

    authenticates = True

    async def authenticate(self, credential: Credential | None, headers: Headers) -> Caller:
        return LOCAL

    def allow(self, caller: Caller, privilege: Privilege, chain: Sequence[Securable]) -> bool:
        return False


class NobodyIsKnown:
    """Knows nobody; what it would allow must never be asked."""

    authenticates = True

    async def authenticate(self, credential: Credential | None, headers: Headers) -> Caller:
        raise Unauthenticated("I do not know you")

    def allow(self, caller: Caller, privilege: Privilege, chain: Sequence[Securable]) -> bool:
        raise AssertionError(f"{privilege} was asked for somebody who is not known")
