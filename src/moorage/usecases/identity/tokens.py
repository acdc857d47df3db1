"""Tokens: created once, shown once, listed without their secret, revoked at any time."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

import msgspec

from moorage import fresh
from moorage.access.port import require
from moorage.core.absence import absent_id
from moorage.core.callers import SYSTEM, Caller
from moorage.core.entries import Create, Drop, Live, RevisionIs
from moorage.core.errors import Forbidden, InvalidInput
from moorage.core.history import created
from moorage.core.ids import SecurableId, is_id
from moorage.core.names import name_key
from moorage.core.principals import Scope, TokenDetails, doc_of, principal_of, token_of
from moorage.core.privileges import Privilege
from moorage.core.reports import ReportKind
from moorage.core.securables import Kind, Securable, Shelf
from moorage.core.tokens import digest_of, new_token
from moorage.usecases.catalog.owners import find_principal
from moorage.usecases.parts import Part
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.settling.settle import settle

MAX_TOKENS = 100
"""The tokens that one principal may have. Expired ones count until they are revoked."""

MAX_SESSIONS = 20
"""The browser sessions that one principal may have besides. A login ends the oldest of more."""

_READS_ONLY: Final = "it needs a token that may also write; this one has the scope 'read'"

DAY_MS = 24 * 60 * 60 * 1000
MAX_LIFETIME_DAYS = 3650


class IssuedToken(msgspec.Struct, frozen=True):
    """A token with its secret, which is never shown again."""

    stored: Securable
    principal: str
    text: str

    def __repr__(self) -> str:
        """Omits the secret, because this text may be logged."""
        return f"IssuedToken({self.stored.id})"


class ListedToken(msgspec.Struct, frozen=True):
    stored: Securable
    principal: str
    last_used_ms: int | None


def new_token_change(
    principal: SecurableId,
    comment: str | None,
    *,
    expires_at_ms: int | None = None,
    scope: Scope = "all",
) -> tuple[str, Create]:
    """The text of a new token, and the change that stores its digest."""
    id = fresh.securable_id()
    text = new_token(id, fresh.secret())
    details = TokenDetails(digest=digest_of(text), expires_at_ms=expires_at_ms, scope=scope)
    doc = doc_of(details, comment)
    return text, Create(id=id, kind=Kind.TOKEN, parent=principal, name=id, owner=SYSTEM.id, doc=doc)


async def create(
    ports: Ports,
    errand: Errand,
    *,
    principal: str | None = None,
    comment: str | None = None,
    lifetime_ms: int | None = None,
    scope: Scope = "all",
) -> IssuedToken:
    """Create a token for the caller, or as an administrator for another principal.

    A token that a caller creates for itself does not outlive the one that it presents: a token that was stolen must
    not become a longer one. A caller that logged in at an identity provider is free to choose.

    The secret is not stored, so a request that is repeated under its idempotency key is refused.
    """

    async def prepare(caller: Caller) -> Part:
        owner = await _owner(ports, caller, principal, Privilege.MANAGE)
        if caller.is_read_only:
            raise Forbidden(f"{caller.name} may not create tokens: {_READS_ONLY}")
        existing = await stored_tokens(ports, owner.id)
        if sum(not token_of(each).is_session for each in existing) >= MAX_TOKENS:
            raise InvalidInput(f"'{owner.name}' has {MAX_TOKENS} tokens; revoke some first", field="principal")
        expires = None if lifetime_ms is None else ports.now_ms() + lifetime_ms
        if owner.name == caller.id:
            expires = _limited(expires, caller.until_ms)
        text, made = new_token_change(owner.id, comment, expires_at_ms=expires, scope=scope)
        issued = IssuedToken(created(made, ports.now_ms(), caller.id), owner.name, text)
        return Part(expects=(Live(owner.id),), changes=(made,), result=issued)

    settled = await settle(ports, errand, prepare)
    if not settled.parts:
        raise InvalidInput("this token was created by an earlier request and is not shown again; create another one")
    issued: IssuedToken = settled.parts[0].result
    return issued


def _limited(expires_at_ms: int | None, until_ms: int | None) -> int | None:
    """When a token expires that was created by one that expires at `until_ms`."""
    if until_ms is not None and expires_at_ms is not None and expires_at_ms > until_ms:
        until = datetime.fromtimestamp(until_ms / 1000, UTC).isoformat(" ", "minutes")
        raise InvalidInput(
            f"the token would outlive the one of this request, which expires at {until}; choose a shorter lifetime, "
            "log in at the identity provider, or ask an administrator for a token",
            field="lifetime_days",
        )
    return until_ms if expires_at_ms is None else expires_at_ms


async def list_tokens(ports: Ports, caller: Caller, *, principal: str | None = None) -> list[ListedToken]:
    """The tokens of the caller, or for an administrator those of another principal. Browser sessions are tokens too."""
    owner = await _owner(ports, caller, principal, Privilege.INSPECT)
    found = []
    for item in await stored_tokens(ports, owner.id):
        uses = await ports.ledger.reports(item.id, kind=ReportKind.SCAN, limit=1)
        found.append(ListedToken(item, owner.name, uses[0].at_ms if uses else None))
    return found


async def revoke(ports: Ports, errand: Errand, id: str) -> None:
    """Revoke a token. From the next request on, every server refuses it."""

    async def prepare(caller: Caller) -> Part:
        chain = (await ports.ledger.lineage(SecurableId(id))).chain if is_id(id) else ()
        if len(chain) != 2 or chain[1].kind is not Kind.TOKEN or not chain[1].is_live:
            raise absent_id(Kind.TOKEN, id)
        owner, token = chain
        if owner.name != caller.id:
            require(ports.access, caller, Privilege.MANAGE, chain, hidden=lambda: absent_id(Kind.TOKEN, id))
        else:
            require(ports.access, caller, Privilege.BROWSE, ())
            if caller.is_read_only and caller.token != token.id:
                raise Forbidden(f"{caller.name} may not revoke another token: {_READS_ONLY}")
        return Part(
            expects=(RevisionIs(token.id, token.revision),),
            changes=(Drop(id=token.id, hold_ms=0, changes_access=True),),
        )

    await settle(ports, errand, prepare)


async def stored_tokens(ports: Ports, principal: SecurableId) -> list[Securable]:
    """All tokens of a principal, with its browser sessions. The caller of this function has checked access."""
    return [*(await ports.ledger.children(principal, Shelf.TOKEN, limit=MAX_TOKENS + MAX_SESSIONS)).items]


async def _owner(ports: Ports, caller: Caller, principal: str | None, privilege: Privilege) -> Securable:
    """The caller itself, or another principal for a caller with the privilege on the metastore."""
    name = principal or caller.id
    require(ports.access, caller, Privilege.BROWSE if name_key(name) == name_key(caller.id) else privilege, ())
    found = await find_principal(ports.ledger, name)
    if found is None or found.kind is Kind.GROUP or not principal_of(found).active:
        remedy = "; the server has no authentication, so name the owner of the token" if name == caller.id else ""
        raise InvalidInput(f"there is no active user or service principal '{name}'{remedy}", field="principal")
    return found


def expires_at_ms(token: Securable) -> int | None:
    return token_of(token).expires_at_ms


def scope_of(token: Securable) -> Scope:
    return token_of(token).scope


def lifetime_ms(days: int | None) -> int | None:
    """The lifetime in days as the catalog keeps it. None: the token does not expire."""
    return None if days is None else days * DAY_MS
