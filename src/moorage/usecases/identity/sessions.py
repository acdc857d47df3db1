"""Exchange the token of a principal for a session token, as OAuth's clients do before their first request."""

from __future__ import annotations

import msgspec

from moorage.access.port import NoHeaders
from moorage.core.credentials import Credential, CredentialScheme
from moorage.core.errors import Unauthenticated
from moorage.core.sessions import LIFETIME_SECONDS, new_session, parse_session, session_key
from moorage.core.tokens import parse_token
from moorage.usecases.catalog.owners import find_principal
from moorage.usecases.ports import Ports


class IssuedSession(msgspec.Struct, frozen=True):
    """A session token, and for how long it is valid."""

    text: str
    expires_in_seconds: int

    def __repr__(self) -> str:
        """Omits the token, because this text may be logged."""
        return f"IssuedSession({self.expires_in_seconds} s)"


async def open_session(ports: Ports, secret: str, *, client_id: str | None = None) -> IssuedSession:
    """A session for the principal of a token: one of this server, or one that its identity provider has issued.

    `client_id` is the name or the id of the principal. OAuth's clients send it with the token as their secret.
    """
    caller = await ports.access.authenticate(Credential(CredentialScheme.BEARER, secret), NoHeaders())
    if caller.job is not None:  # a session of its principal would open more than the table of the job
        raise Unauthenticated("the token of a job cannot be exchanged; send it as `Authorization: Bearer …`")
    principal = await find_principal(ports.ledger, caller.id)
    if principal is None or client_id not in (None, "", principal.name, principal.id):
        raise Unauthenticated("client_id is not the name or the id of the principal whose token is the client_secret")
    key = session_key(ports.page_secret)
    token, session = parse_token(secret), parse_session(key, secret)
    # A session of a token ends with that token. A session of an identity provider's token ends with its user, and is
    # not extended without the provider: a session that was stolen once would be valid for ever.
    of = token.id if token is not None else session.id if session is not None else principal.id
    now_s = ports.now_ms() // 1000
    expires_at_s = now_s + LIFETIME_SECONDS
    if session is not None and session.id == principal.id:
        expires_at_s = session.expires_at_s
    return IssuedSession(new_session(key, of, expires_at_s), expires_at_s - now_s)
