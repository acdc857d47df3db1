"""Authentication on: callers present a token, and may do what they are granted.

What a token was verified to be holds for one access_seq of the ledger. Every request compares that with the newest one,
so a token that was revoked or a group that was left on any server is noticed by the next request.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from hashlib import sha256
from math import inf
from operator import is_
from typing import NamedTuple

from msgspec.structs import replace

from moorage import fresh
from moorage.access.browser_logins import BrowserLogins
from moorage.access.decisions import begin_decisions
from moorage.access.directory import Directory
from moorage.access.logins import Identity, Logins
from moorage.access.port import Headers
from moorage.core import permissions
from moorage.core.callers import SYSTEM, Caller, JobScope
from moorage.core.credentials import Credential, CredentialScheme
from moorage.core.entries import ENDED, Create, Draft, NameFree
from moorage.core.errors import InvalidInput, MoorageError, Unauthenticated
from moorage.core.ids import SecurableId
from moorage.core.job_tokens import JobToken, job_token_key, parse_job_token
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


_MAX_KNOWN = 10_000
"""How many tokens and decisions are known from earlier requests."""


class _Verified(NamedTuple):
    """A token whose secret was verified, and the caller that it identifies in a state of all groups and grants."""

    until_ms: float
    """When the token expires, or the time of its last use is recorded again."""
    access_seq: int
    caller: Caller
    chain: tuple[Securable, ...]


class _Decided(NamedTuple):
    caller: Caller
    chain: Sequence[Securable]
    allowed: bool


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
        browser_logins: BrowserLogins | None = None,
        now_ms: Callable[[], int] = _wall_clock_ms,
    ) -> None:
        """`logins`: identifies callers by tokens of identity providers, if the server trusts any.

        `browser_logins` identifies the users of browsers that log in there.
        """
        self._ledger = ledger
        self._logins = logins
        self._browser_logins = browser_logins
        self._session_key = session_key(page_secret)
        self._job_token_key = job_token_key(page_secret)
        self._now_ms = now_ms
        self._directory = Directory(ledger)
        self._verified: dict[bytes, _Verified] = {}
        self._decided: dict[tuple[str, Privilege, str], _Decided] = {}
        self._used_ms: dict[SecurableId, int] = {}
        self._notes: set[asyncio.Task[None]] = set()

    async def authenticate(self, credential: Credential | None, headers: Headers) -> Caller:
        begin_decisions()
        if credential is None:
            raise Unauthenticated("this server requires a token; send it as `Authorization: Bearer moor_…`")
        match credential.scheme:
            case CredentialScheme.BEARER | CredentialScheme.API_KEY:
                digest = sha256(credential.secret.encode()).digest()
                known = self._verified.get(digest)
                if known is None or known.until_ms <= self._now_ms():
                    return await self._caller_of_text(credential.secret, digest)
                if known.access_seq == self._ledger.known_access_seq:
                    return known.caller
                found = await self._ledger.lineage(known.chain[-1].id)
                if found.position.access_seq != known.access_seq or not _are_same(found.chain, known.chain):
                    return await self._caller_of_text(credential.secret, digest)
                return replace(known.caller, seq=found.position.seq)
            case CredentialScheme.COOKIE:
                return await self._caller_of_browser(credential.secret)
            case CredentialScheme.ID_TOKEN if self._browser_logins is not None:
                identity = await self._browser_logins.identify(credential.secret)
                return await self._caller_of_identity(identity, creates_users=self._browser_logins.creates_users)
        raise _foreign()

    async def _caller_of_text(self, text: str, digest: bytes) -> Caller:
        """The caller of a token of any kind."""
        if (token := parse_token(text)) is not None:
            return await self._caller_of(token.id, text, digest)
        if (session := parse_session(self._session_key, text)) is not None:
            expires_at_ms = session.expires_at_s * 1000
            if expires_at_ms <= self._now_ms():
                raise Unauthenticated("the session has expired; exchange the token again")
            return await self._caller_of(session.id, None, digest, expires_at_ms)
        if (of_job := parse_job_token(self._job_token_key, text)) is not None:
            return await self._caller_of_job(of_job)
        if self._logins is not None and not text.startswith(PREFIX):
            identity = await self._logins.identify(text)
            return await self._caller_of_identity(identity, creates_users=self._logins.creates_users)
        raise _foreign()

    def allow(self, caller: Caller, privilege: Privilege, chain: Sequence[Securable]) -> bool:
        """Decide, or repeat the decision about the same owners and grants: it depends on nothing else."""
        if not chain or caller.is_admin:
            return permissions.allows(caller, privilege, chain)
        key = (caller.id, privilege, chain[-1].id)
        known = self._decided.get(key)
        if (
            known is not None
            and (known.caller is caller or _are_alike(known.caller, caller))
            # Unchanged objects are the same in memory, and tuples compare them by identity first.
            and (known.chain == chain or _admit_same(known.chain, chain))
        ):
            return known.allowed
        allowed = permissions.allows(caller, privilege, chain)
        if len(self._decided) >= _MAX_KNOWN:
            self._decided.clear()
        self._decided[key] = _Decided(caller, chain, allowed)
        return allowed

    def reveals(self, caller: Caller, chain: Sequence[Securable]) -> bool:
        return permissions.knows_of(caller, chain)

    async def _caller_of(
        self, id: SecurableId, text: str | None, digest: bytes | None, expires_at_ms: float = inf
    ) -> Caller:
        """The caller of a token. Without its text, a session was issued for the id of a token or of a principal.

        With a digest, the caller is known by it until then. A session of a browser has none: it also depends on the
        token by which the browser logged in.
        """
        found = await self._ledger.lineage(id)
        # A token is the child of its principal. The token of a sharing recipient is another kind of object.
        principal = found.chain[0] if found.chain else None
        token = found.chain[1] if len(found.chain) == 2 else None
        if principal is None or principal.kind not in PRINCIPAL_KINDS or found.chain[-1].id != id:
            raise _unknown()
        details = until_ms = None
        if token is not None:
            details = self._require_token(token, text)
            until_ms = None if details.is_session else details.expires_at_ms
            if details.made_from is not None:
                until_ms = (await self._require_origin(details.made_from)).expires_at_ms
        elif text is not None or principal.kind is Kind.GROUP:
            raise _unknown()
        if not principal.is_live or not principal_of(principal).active:
            raise Unauthenticated(f"'{principal.name}' is not active; ask an administrator to activate it")
        caller = await self._directory.caller(principal, found.position)
        if details is None:
            return caller
        caller = replace(caller, token=id, until_ms=until_ms, is_read_only=details.scope == "read")
        if digest is not None and caller.access_seq is not None:
            if len(self._verified) >= _MAX_KNOWN:
                self._verified.clear()
            expires = expires_at_ms if details.expires_at_ms is None else min(expires_at_ms, details.expires_at_ms)
            until = min(expires, self._used_ms.get(id, 0) + _USE_NOTED_MS)
            self._verified[digest] = _Verified(until, caller.access_seq, caller, found.chain)
        return caller

    async def _caller_of_browser(self, cookie: str) -> Caller:
        """The caller of a browser's session. The digest covers the name of the cookie.

        So a session is no bearer token, a bearer token is no session, and a session that was issued under a name that
        only this host can set is refused under another name, which other hosts of the domain can set.
        """
        token = parse_token(cookie.partition("=")[2])
        if token is None:
            raise Unauthenticated("log in first")
        return await self._caller_of(token.id, cookie, None)

    async def _require_origin(self, id: SecurableId) -> TokenDetails:
        """The token by which a browser logged in or a job was taken, unless it was revoked."""
        chain = (await self._ledger.lineage(id)).chain
        if not chain or not chain[-1].is_live:
            raise Unauthenticated("the token by which this one was issued was revoked; log in again")
        return token_of(chain[-1])

    async def _caller_of_job(self, token: JobToken) -> Caller:
        """The principal that took a job, confined to the table of the job for as long as the job is open.

        It must still be allowed to run jobs, and the token by which it took this one must still be valid.
        """
        job = await self._ledger.job(token.job)
        if job is None or job.state in ENDED or job.subject is None:
            raise Unauthenticated(f"job '{token.job}' has ended, and its token with it")
        found = await self._directory.find(token.principal)
        principal = found.chain[0] if found.chain else None
        if principal is None or not principal.is_live or not principal_of(principal).active:
            raise Unauthenticated(f"'{token.principal}' is not active; ask an administrator to activate it")
        if token.made_from is not None:
            self._require_unexpired(await self._require_origin(token.made_from))
        worker = await self._directory.caller(principal, found.position)
        if not permissions.allows(worker, Privilege.WORK, ()):
            raise Unauthenticated(f"'{token.principal}' may no longer run jobs, and this token was issued for one")
        above = (await self._ledger.lineage(job.subject)).chain[:-1]
        scope = JobScope(job.id, token.fence, job.subject, frozenset(each.id for each in above))
        return Caller(id=principal.name, name=principal.name, job=scope, access_seq=found.position.access_seq)

    async def _caller_of_identity(self, identity: Identity, *, creates_users: bool) -> Caller:
        """The caller of a verified token of an identity provider."""
        found = await self._directory.find(identity.name)
        if not found.chain and creates_users:
            await self._create_user(identity)
            found = await self._directory.find(identity.name)
        principal = found.chain[0] if found.chain else None
        if principal is None or principal.kind is Kind.GROUP or not (details := principal_of(principal)).active:
            raise Unauthenticated(f"'{identity.name}' is not a user of this catalog; ask an administrator to add it")
        # The first administrator is a name that anyone could choose at an identity provider.
        is_bound = details.account is not None or principal.name == ADMIN
        if is_bound and details.account != identity.external_id:
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
        self._require_unexpired(details)
        self._note_use(token.id, self._now_ms())
        return details

    def _require_unexpired(self, details: TokenDetails) -> None:
        if details.expires_at_ms is not None and details.expires_at_ms <= self._now_ms():
            raise Unauthenticated("the token has expired; create another one")

    def _note_use(self, id: SecurableId, now_ms: int) -> None:
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


def _are_same(one: Sequence[Securable], other: Sequence[Securable]) -> bool:
    """Whether the chains consist of the same objects in memory. Then nothing about them has changed."""
    return one is other or (len(one) == len(other) and all(map(is_, one, other)))


def _are_alike(one: Caller, other: Caller) -> bool:
    """Whether two callers of one name act for the same principals. Requests of a caller share all but the position."""
    return (
        one.principals is other.principals
        and one.grants is other.grants
        and one.is_read_only is other.is_read_only
        and one.job is other.job
    )


def _admit_same(one: Sequence[Securable], other: Sequence[Securable]) -> bool:
    """Whether the chains have the same objects with the same owners and grants. A commit changes neither."""
    if len(one) != len(other):
        return False
    for a, b in zip(one, other, strict=True):
        if a is not b and not (a.id == b.id and a.owner == b.owner and a.grants is b.grants):
            return False
    return True


def _unknown() -> Unauthenticated:
    return Unauthenticated("the token is not known to this server, or was revoked")


def _foreign() -> Unauthenticated:
    return Unauthenticated("this is not a token of this server; create one with `moorage token create`")
