"""Access control for tests: callers by name, and implementations that refuse everything."""

from __future__ import annotations

from collections.abc import Sequence

from moorage.access.port import Headers
from moorage.core.callers import LOCAL, Caller
from moorage.core.credentials import Credential
from moorage.core.errors import Unauthenticated
from moorage.core.privileges import Privilege
from moorage.core.securables import Securable


class NamedCallers:
    """The caller is named by the `x-caller` header and may do everything, unless it is locked out."""

    authenticates = False  # so that a name needs no user

    def __init__(self) -> None:
        self.locked_out: set[str] = set()

    async def authenticate(self, credential: Credential | None, headers: Headers) -> Caller:
        name = headers.get("x-caller")
        return LOCAL if name is None else Caller(id=name, name=name)

    def allow(self, caller: Caller, privilege: Privilege, chain: Sequence[Securable]) -> bool:
        return caller.id not in self.locked_out

    def reveals(self, caller: Caller, chain: Sequence[Securable]) -> bool:
        return True


class DenyAll:
    """Authenticates every request and grants no privilege."""

    authenticates = True

    async def authenticate(self, credential: Credential | None, headers: Headers) -> Caller:
        return LOCAL

    def allow(self, caller: Caller, privilege: Privilege, chain: Sequence[Securable]) -> bool:
        return False

    def reveals(self, caller: Caller, chain: Sequence[Securable]) -> bool:
        return True


class UnknownCaller:
    """Authenticates no request. A privilege must never be checked."""

    authenticates = True

    async def authenticate(self, credential: Credential | None, headers: Headers) -> Caller:
        raise Unauthenticated("the token is unknown")

    def allow(self, caller: Caller, privilege: Privilege, chain: Sequence[Securable]) -> bool:
        raise AssertionError(f"{privilege} was checked for an unknown caller")

    def reveals(self, caller: Caller, chain: Sequence[Securable]) -> bool:
        raise AssertionError("an object was checked for an unknown caller")
