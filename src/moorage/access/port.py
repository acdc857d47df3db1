"""The contract of access: authenticate once per request, allow once per decision.

`chain` is the object with its ancestors, outermost first, as the ledger found them; empty means the
metastore itself. Rights on an ancestor hold below it, so one look at the chain is enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from moorage.core.callers import Caller
from moorage.core.credentials import Credential
from moorage.core.errors import Forbidden
from moorage.core.privileges import Privilege
from moorage.core.securables import Securable


class Headers(Protocol):
    """The headers of a request; names in any case."""

    def get(self, name: str) -> str | None: ...


class Access(Protocol):
    @property
    def authenticates(self) -> bool:
        """Whether callers prove who they are; if not, the server may listen on loopback only."""
        ...

    async def authenticate(self, credential: Credential | None, headers: Headers) -> Caller:
        """The caller that presents this credential, or Unauthenticated.

        The API of the request has read the credential, in the scheme that its clients use. Called once per request,
        and again when a grant or revocation in between made an append stale.
        """
        ...

    def allow(self, caller: Caller, privilege: Privilege, chain: Sequence[Securable]) -> bool: ...


def require(access: Access, caller: Caller, privilege: Privilege, chain: Sequence[Securable]) -> None:
    """Forbidden unless the caller holds the privilege on the last object of the chain."""
    if not access.allow(caller, privilege, chain):
        what = f"{chain[-1].kind} '{chain[-1].name}'" if chain else "the metastore"
        raise Forbidden(f"{caller.name} lacks {privilege} on {what}; ask its owner for it")
