"""Authentication on: callers present a token, and may do what they are granted.

Each request reads its token by id. That read also returns the ledger's position, so a token that was revoked or a group
that was left on any server is noticed by the next request, without a cache that could be out of date.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from msgspec.structs import replace

from moorage import fresh
from moorage.access.directory import Directory
from moorage.access.logins import Identity, Logins
from moorage.access.port import Headers
from moorage.core import permissions
from moorage.core.callers import SYSTEM, Caller
from moorage.core.credentials import Credential, CredentialScheme
from moorage.core.entries import Create, Draft, NameFree
from moorage.core.errors import InvalidInput, MoorageError, Unauthenticated
from moorage.core.ids import SecurableId
from moorage.core.names import name_key
from moorage.core.principals import (
    ADMIN,
    PRINCIPAL_KINDS,
    Principal,
    TokenDetails,
    doc_of,
    principal_of,
    require_principal_name,
    token_of,
)
from moorage.core.privileges import Privilege
from moorage.core.reports import ReportKind
from moorage.core.securables import Kind, Securable, Shelf
from moorage.core.sessions import parse_session, session_key
from moorage.core.tokens import PREFIX, is_token, parse_token
from moorage.ledger.port import Ledger, Stale

_USE_NOTED_MS = 10 * 60 * 1000
"""The time of a token's last use is recorded at most this often."""


def _wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


class GrantedAccess:
    authenticates = True

    def __init__(
        self,
        ledger: Ledger,
        page_secret: bytes,
        *,
        logins: Logins | None = None,
        now_ms: Callable[[], int] = _wall_clock_ms,
    ) -> None:
        """`logins`: identifies callers by tokens of identity providers, if the server trusts any."""
        self._ledger = ledger
        self._logins = logins
        self._session_key = session_key(page_secret)
        self._now_ms = now_ms
        self._directory = Directory(ledger)
        self._used_ms: dict[SecurableId, int] = {}
        self._notes: set[asyncio.Task[None]] = set()

    async def authenticate(self, credential: Credential | None, headers: Headers) -> Caller:
        if credential is None:
            raise Unauthenticated("this server requires a token; send it as `Authorization: Bearer moor_…`")
        if credential.scheme is not CredentialScheme.RECIPIENT:
            text = credential.secret
            if (token := parse_token(text)) is not None:
                return await self._caller_of(token.id, text)
            if (session := parse_session(self._session_key, text)) is not None:
                if session.expires_at_s * 1000 <= self._now_ms():
                    raise Unauthenticated("the session has expired; exchange the token again")
                return await self._caller_of(session.id, None)
            if self._logins is not None and not text.startswith(PREFIX):
                return await self._caller_of_identity(await self._logins.identify(text), self._logins)
        raise Unauthenticated("this is not a token of this server; create one with `moorage token create`")

    def allow(self, caller: Caller, privilege: Privilege, chain: Sequence[Securable]) -> bool:
        return permissions.allows(caller, privilege, chain)

    def reveals(self, caller: Caller, chain: Sequence[Securable]) -> bool:
        return permissions.knows_of(caller, chain)

    async def _caller_of(self, id: SecurableId, text: str | None) -> Caller:
        """The caller of a token. Without its text, a session was issued for the id of a token or of a principal."""
        found = await self._ledger.lineage(id)
        # A token is the child of its principal. The token of a sharing recipient is another kind of object.
        principal = found.chain[0] if found.chain else None
        token = found.chain[1] if len(found.chain) == 2 else None
        if principal is None or principal.kind not in PRINCIPAL_KINDS or found.chain[-1].id != id:
            raise _unknown()
        is_read_only = False
        if token is not None:
            is_read_only = self._require_token(token, text).scope == "read"
        elif text is not None or principal.kind is Kind.GROUP:
            raise _unknown()
        if not principal.is_live or not principal_of(principal).active:
            raise Unauthenticated(f"'{principal.name}' is not active; ask an administrator to activate it")
        caller = await self._directory.caller(principal, found.position)
        return replace(caller, is_read_only=True) if is_read_only else caller

    async def _caller_of_identity(self, identity: Identity, logins: Logins) -> Caller:
        """The caller of a verified token of an identity provider."""
        found = await self._directory.find(identity.name)
        if not found.chain and logins.creates_users:
            await self._create_user(identity)
            found = await self._directory.find(identity.name)
        principal = found.chain[0] if found.chain else None
        if principal is None or principal.kind is Kind.GROUP or not (details := principal_of(principal)).active:
            raise Unauthenticated(f"'{identity.name}' is not a user of this catalog; ask an administrator to add it")
        # The first administrator is a name that anyone could choose at an identity provider.
        is_bound = details.external_id is not None or principal.name == ADMIN
        if is_bound and details.external_id != identity.external_id:
            raise Unauthenticated(f"'{identity.name}' belongs to another account of the identity provider")
        return await self._directory.caller(principal, found.position, identity.groups)

    async def _create_user(self, identity: Identity) -> None:
        """Create the user of a first login. Another server may do the same at the same time."""
        try:
            name = require_principal_name(identity.name, "the name of the user")
        except InvalidInput as error:
            raise Unauthenticated(error.message) from None
        root = self._ledger.root
        create = Create(
            id=fresh.securable_id(),
            kind=Kind.USER,
            parent=root,
            name=name,
            owner=SYSTEM.id,
            doc=doc_of(Principal(external_id=identity.external_id)),
        )
        draft = Draft(
            id=fresh.draft_id(),
            caller=SYSTEM.id,
            api="server",
            request="first login",
            expects=(NameFree(root, Shelf.PRINCIPAL, name_key(name)),),
            changes=(create,),
        )
        with suppress(Stale):
            await self._ledger.append(draft)

    def _require_token(self, token: Securable, text: str | None) -> TokenDetails:
        if token.kind is not Kind.TOKEN or not token.is_live:
            raise _unknown()
        details = token_of(token)
        if text is not None and not is_token(text, details.digest):
            raise _unknown()
        if details.expires_at_ms is not None and details.expires_at_ms <= self._now_ms():
            raise Unauthenticated("the token has expired; create another one")
        self._note_use(token.id)
        return details

    def _note_use(self, id: SecurableId) -> None:
        now_ms = self._now_ms()
        if now_ms - self._used_ms.get(id, -_USE_NOTED_MS) < _USE_NOTED_MS:
            return
        self._used_ms[id] = now_ms
        task = asyncio.create_task(self._store_use(id))
        self._notes.add(task)
        task.add_done_callback(self._notes.discard)

    async def _store_use(self, id: SecurableId) -> None:
        try:
            await self._ledger.store_report(id, 0, b"{}", kind=ReportKind.SCAN)
        except MoorageError:  # the time of the last use is worth less than the request
            self._used_ms.pop(id, None)


def _unknown() -> Unauthenticated:
    return Unauthenticated("the token is not known to this server, or was revoked")
