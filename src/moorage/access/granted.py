"""Authentication on: callers present a token, and may do what they are granted.

Each request reads its token by id. That read also returns the ledger's position, so a token that was revoked or a group
that was left on any server is noticed by the next request, without a cache that could be out of date.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from moorage.access.directory import Directory
from moorage.access.port import Headers
from moorage.core import permissions
from moorage.core.callers import Caller
from moorage.core.credentials import Credential, CredentialScheme
from moorage.core.errors import MoorageError, Unauthenticated
from moorage.core.ids import SecurableId
from moorage.core.principals import PRINCIPAL_KINDS, principal_of, token_of
from moorage.core.privileges import Privilege
from moorage.core.reports import ReportKind
from moorage.core.securables import Kind, Securable
from moorage.core.tokens import Token, is_token, parse_token
from moorage.ledger.port import Ledger

_USE_NOTED_MS = 10 * 60 * 1000
"""The time of a token's last use is recorded at most this often."""


def _wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


class GrantedAccess:
    authenticates = True

    def __init__(self, ledger: Ledger, *, now_ms: Callable[[], int] = _wall_clock_ms) -> None:
        self._ledger = ledger
        self._now_ms = now_ms
        self._directory = Directory(ledger)
        self._used_ms: dict[SecurableId, int] = {}
        self._notes: set[asyncio.Task[None]] = set()

    async def authenticate(self, credential: Credential | None, headers: Headers) -> Caller:
        if credential is None:
            raise Unauthenticated("this server requires a token; send it as `Authorization: Bearer moor_…`")
        token = None if credential.scheme is CredentialScheme.RECIPIENT else parse_token(credential.secret)
        if token is None:
            raise Unauthenticated("this is not a token of this server; create one with `moorage token create`")
        return await self._caller_of(token)

    def allow(self, caller: Caller, privilege: Privilege, chain: Sequence[Securable]) -> bool:
        return permissions.allows(caller, privilege, chain)

    def reveals(self, caller: Caller, chain: Sequence[Securable]) -> bool:
        return permissions.knows_of(caller, chain)

    async def _caller_of(self, token: Token) -> Caller:
        found = await self._ledger.lineage(token.id)
        # A token is the child of its principal. The token of a sharing recipient is another kind of object.
        principal, stored = found.chain if len(found.chain) == 2 else (None, None)
        if principal is None or stored is None or stored.kind is not Kind.TOKEN:
            raise _unknown()
        details = token_of(stored)
        if not is_token(token.text, details.digest) or principal.kind not in PRINCIPAL_KINDS or not stored.is_live:
            raise _unknown()
        if details.expires_at_ms is not None and details.expires_at_ms <= self._now_ms():
            raise Unauthenticated("the token has expired; create another one")
        if not principal.is_live or not principal_of(principal).active:
            raise Unauthenticated(f"'{principal.name}' is not active; ask an administrator to activate it")
        self._note_use(stored.id)
        caller = await self._directory.caller(principal, found.position)
        return replace(caller, is_read_only=True) if details.scope == "read" else caller

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
