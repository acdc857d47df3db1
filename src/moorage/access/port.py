"""The access port: `authenticate` is called once per request, `allow` once per decision.

`chain` is the object and its ancestors, outermost first, as read from the ledger. An empty chain means the
metastore itself. A privilege on an ancestor is inherited, so the chain is all that a decision needs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from moorage.access.decisions import note_decision
from moorage.core.absence import absent
from moorage.core.callers import Caller
from moorage.core.credentials import Credential
from moorage.core.errors import Forbidden, NotFound
from moorage.core.permissions import missing_grant
from moorage.core.privileges import Privilege
from moorage.core.securables import Securable


class Headers(Protocol):
    """The headers of a request. Names are case-insensitive."""

    def get(self, name: str) -> str | None: ...


class NoHeaders:
    """The headers of a credential that came in a body or a cookie."""

    def get(self, name: str) -> str | None:
        return None


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

    def reveals(self, caller: Caller, chain: Sequence[Securable]) -> bool:
        """Whether the caller may learn that the last object exists. If not, it is answered as if it did not."""
        ...


Hidden = Callable[[], NotFound]
"""Makes the error for an object that does not exist, as the request names it."""


def require(
    access: Access,
    caller: Caller,
    privilege: Privilege,
    chain: Sequence[Securable],
    *,
    hidden: Hidden | None = None,
) -> None:
    """Raise an error unless the caller has the privilege on the last object of the chain.

    The error is Forbidden, or that of a missing object if the caller may not learn that the object exists.
    """
    if access.allow(caller, privilege, chain):
        note_decision(chain, None)
        return
    missing = f"it needs {missing_grant(caller, privilege, chain)}"
    note_decision(chain, missing)
    if not access.reveals(caller, chain):
        raise absent(chain[-1].kind, [part.name for part in chain]) if hidden is None else hidden()
    raise Forbidden(f"{caller.name} may not {_does(privilege, chain)}: {missing}")


def require_in_area(access: Access, caller: Caller, privilege: Privilege, area: Sequence[Securable]) -> None:
    """`require` for a folder that the caller names by its address. `area`: its external location; empty if it has none.

    The error does not tell a caller that holds nothing on the location that there is one.
    """
    hides = area and not access.allow(caller, privilege, area) and not access.reveals(caller, area)
    require(access, caller, privilege, () if hides else area)


def _does(privilege: Privilege, chain: Sequence[Securable]) -> str:
    what = f"{chain[-1].kind} '{chain[-1].name}'" if chain else "the metastore"
    return f"{privilege} in {what}" if privilege.startswith(("create", "store", "choose")) else f"{privilege} {what}"
