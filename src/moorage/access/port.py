"""The access port: `authenticate` is called once per request, `allow` once per decision.

`chain` is the object and its ancestors, outermost first, as read from the ledger. An empty chain means the
metastore itself. A privilege on an ancestor is inherited, so the chain is all that a decision needs.
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
    """The headers of a request. Names are case-insensitive."""

    def get(self, name: str) -> str | None: ...


class Access(Protocol):
    @property
    def authenticates(self) -> bool:
        """Whether callers are authenticated. If not, the server may listen on loopback only."""
        ...

    async def authenticate(self, credential: Credential | None, headers: Headers) -> Caller:
        """The caller that presents this credential, or Unauthenticated.

        The API of the request has read the credential, in the scheme that its clients use. Called once per request,
        and again when a grant or revocation in between made an append stale.
        """
        ...

    def allow(self, caller: Caller, privilege: Privilege, chain: Sequence[Securable]) -> bool: ...


def require(access: Access, caller: Caller, privilege: Privilege, chain: Sequence[Securable]) -> None:
    """Raise Forbidden unless the caller has the privilege on the last object of the chain."""
    if not access.allow(caller, privilege, chain):
        what = f"{chain[-1].kind} '{chain[-1].name}'" if chain else "the metastore"
        raise Forbidden(f"{caller.name} does not have {privilege} on {what}; ask its owner to grant it")
