"""Sessions of browsers: opened by a login, ended by a logout, by the end of their token, or after half a day.

A session is stored as a token of its user, so every server of the ledger knows it, and refuses it once it was ended.
The browser keeps it in a cookie. It is listed and revoked like any other token.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Final

import msgspec
from msgspec.structs import replace

from moorage import fresh
from moorage.access.port import NoHeaders, require
from moorage.core.browsers import ATTEMPT_MS, LoginAttempt, open_attempt, seal_attempt
from moorage.core.callers import SYSTEM, Caller
from moorage.core.credentials import Credential, CredentialScheme
from moorage.core.entries import Create, Drop, IdempotencyKey, Live, RevisionIs
from moorage.core.errors import InvalidInput, SecurableNotFound, Unauthenticated
from moorage.core.ids import SecurableId
from moorage.core.principals import TokenDetails, doc_of, token_of
from moorage.core.privileges import Privilege
from moorage.core.securables import Kind, Securable
from moorage.core.tokens import digest_of, new_token, parse_token
from moorage.usecases.catalog.owners import find_principal
from moorage.usecases.identity import tokens
from moorage.usecases.parts import Part
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.settling.settle import settle

LIFETIME_MS: Final = 12 * 60 * 60 * 1000
CALLBACK: Final = "/login/callback"
"""Where a browser returns from an identity provider. The provider has to know this address."""
_COMMENT: Final = "browser session"


class BrowserSession(msgspec.Struct, frozen=True):
    """A new session: the value of its cookie, and for how long it is valid."""

    value: str
    lifetime_seconds: int

    def __repr__(self) -> str:
        """Omits the value, because this text may be logged."""
        return f"BrowserSession({self.lifetime_seconds} s)"


async def log_in_by_token(ports: Ports, errand: Errand, text: str, *, cookie: str) -> BrowserSession:
    """Open a session for the principal of a token. `cookie` is the name under which the browser keeps it.

    The caller of the errand is not used: it is the principal of the token.
    """
    token = parse_token(text)
    if token is None:
        raise Unauthenticated("this is not a token of this server; paste one that begins with moor_")
    own = await _errand_of(ports, errand, Credential(CredentialScheme.BEARER, text))
    stored = (await ports.ledger.lineage(token.id)).chain
    ends_at_ms = token_of(stored[-1]).expires_at_ms if stored else None
    return await _open(ports, own, cookie, made_from=token.id, ends_at_ms=ends_at_ms)


async def begin_login(ports: Ports, issuer: str, next_path: str) -> tuple[str, str]:
    """Begin a login at an identity provider: where the browser logs in, and the attempt, which it keeps, sealed."""
    attempt = LoginAttempt(
        issuer=issuer,
        state=fresh.secret(),
        nonce=fresh.secret(),
        verifier=fresh.secret(),
        next=next_path,
        expires_at_ms=ports.now_ms() + ATTEMPT_MS,
    )
    url = await ports.browser_logins.authorization_url(attempt, _callback(ports))
    return url, seal_attempt(ports.page_secret, attempt)


async def finish_login(
    ports: Ports, errand: Errand, sealed: str, *, state: str, code: str, issuer: str | None, cookie: str
) -> tuple[BrowserSession, str]:
    """Open a session for the user whom the identity provider names, and return where to go then.

    `issuer` is what the answer states about its sender (RFC 9207), if anything. The caller of the errand is not used.
    """
    attempt = open_attempt(ports.page_secret, sealed, state=state, now_ms=ports.now_ms())
    if attempt is None or issuer not in (None, attempt.issuer):
        raise Unauthenticated("this login was not begun in this browser, or took too long; log in again")
    token = await ports.browser_logins.redeem(attempt, code, _callback(ports))
    own = await _errand_of(ports, errand, Credential(CredentialScheme.ID_TOKEN, token))
    # Under its key a login opens one session, on any server, however often the browser sends the answer.
    fingerprint = digest_of(attempt.state)
    key = IdempotencyKey(value=f"login-{fingerprint}", fingerprint=fingerprint, lifetime_ms=2 * ATTEMPT_MS)
    session = await _open(ports, replace(own, key=key), cookie, made_from=None, ends_at_ms=None)
    return session, attempt.next


def _callback(ports: Ports) -> str:
    return f"{ports.public_url}{CALLBACK}"


async def log_out(ports: Ports, errand: Errand, value: str) -> None:
    """End a session of the caller. Every server refuses it from the next request on. It may have ended already."""
    require(ports.access, errand.caller, Privilege.BROWSE, ())
    if (token := parse_token(value)) is not None:
        with suppress(SecurableNotFound):
            await tokens.revoke(ports, errand, token.id)


async def _errand_of(ports: Ports, errand: Errand, credential: Credential) -> Errand:
    """The errand of the caller that presents the credential."""
    authenticate = partial(ports.access.authenticate, credential, NoHeaders())
    return replace(errand, caller=await authenticate(), authenticate=authenticate)


async def _open(
    ports: Ports, errand: Errand, cookie: str, *, made_from: SecurableId | None, ends_at_ms: int | None
) -> BrowserSession:
    """Store a session, and end those of the user that have expired or are too many."""

    async def prepare(caller: Caller) -> Part:
        require(ports.access, caller, Privilege.BROWSE, ())
        user = await find_principal(ports.ledger, caller.id)
        if user is None:
            raise Unauthenticated(f"'{caller.name}' is not a user of this catalog")
        now = ports.now_ms()
        until = min(now + LIFETIME_MS, now + LIFETIME_MS if ends_at_ms is None else ends_at_ms)
        value, made = _new_session(user.id, cookie, until, made_from=made_from, is_read_only=caller.is_read_only)
        ended = _surplus(await tokens.stored_tokens(ports, user.id), now)
        return Part(
            expects=(Live(user.id), *(RevisionIs(each.id, each.revision) for each in ended)),
            changes=(made, *(Drop(id=each.id, hold_ms=0, changes_access=True) for each in ended)),
            result=BrowserSession(value, (until - now) // 1000),
        )

    settled = await settle(ports, errand, prepare)
    if not settled.parts:
        raise InvalidInput("this login was used already; log in again")
    session: BrowserSession = settled.parts[0].result
    return session


def _new_session(
    user: SecurableId, cookie: str, until_ms: int, *, made_from: SecurableId | None, is_read_only: bool
) -> tuple[str, Create]:
    id = fresh.securable_id()
    value = new_token(id, fresh.secret())
    details = TokenDetails(
        digest=digest_of(f"{cookie}={value}"),
        expires_at_ms=until_ms,
        scope="read" if is_read_only else "all",
        is_session=True,
        made_from=made_from,
    )
    doc = doc_of(details, _COMMENT)
    return value, Create(id=id, kind=Kind.TOKEN, parent=user, name=id, owner=SYSTEM.id, doc=doc)


def _surplus(stored: list[Securable], now_ms: int) -> list[Securable]:
    """The sessions that make room for a new one: those that have expired, and the oldest above the limit."""
    sessions = [each for each in stored if token_of(each).is_session]
    live = [each for each in sessions if (token_of(each).expires_at_ms or 0) > now_ms]
    live.sort(key=lambda each: each.created_at_ms)
    excess = live[: max(0, len(live) + 1 - tokens.MAX_SESSIONS)]
    return [each for each in sessions if each not in live or each in excess]
