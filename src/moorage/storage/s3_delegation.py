"""Requests to S3, signed for clients that have no key of their own."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from moorage.core.errors import Forbidden
from moorage.core.vended import StoreSettings, VendedKey
from moorage.storage.port import ClientRequest
from moorage.storage.s3_account import S3Account
from moorage.storage.s3_requests import S3Request, Wish, sign, understand
from moorage.storage.s3_sessions import S3Session, S3Sessions

if TYPE_CHECKING:
    from moorage.storage.s3 import S3Storage


class _ParsedRequest(NamedTuple):
    """A request and what it would read or write."""

    request: S3Request
    wish: Wish

    @property
    def writes(self) -> bool:
        return self.wish.writes

    @property
    def url(self) -> str:
        key = self.wish.keys[0] if self.wish.keys else self.wish.prefix or ""
        return f"s3://{self.wish.bucket}/{key}"

    def require_within(self, *locations: str) -> None:
        self.wish.require_within(*locations)


class S3Delegation:
    """The port `Delegation` for one S3 account."""

    def __init__(self, account: S3Account, sessions: S3Sessions, storage: S3Storage) -> None:
        self._account = account
        self._sessions = sessions
        self._storage = storage
        self._signer: tuple[S3Session, S3Storage] | None = None

    @property
    def locations(self) -> tuple[str, ...]:
        return self._account.locations

    @property
    def settings(self) -> StoreSettings:
        return StoreSettings(self._account.endpoint, self._account.region, self._account.path_style)

    def allows(self, location: str) -> bool:
        return self._account.holds(location)

    async def signs(self) -> bool:
        return await self._sessions.are_available()

    async def vends(self) -> bool:
        # On Amazon S3 a session needs a role; without one, the account's own key signs requests.
        has_sessions = self._account.role_arn is not None or not self._account.is_strict
        return has_sessions and await self._sessions.are_available()

    async def vend(self, locations: Sequence[str], *, writes: bool) -> VendedKey:
        session = await self._sessions.session_for(*locations, writes=writes)
        key = session.key
        return VendedKey(key.access_key_id, key.secret_access_key, key.token or "", session.expires_at_ms)

    async def url_seconds(self, wanted: int) -> int:
        if self._account.role_arn is None:
            return wanted
        session = await self._sessions.own_session()
        return min(wanted, session.expires_at_ms // 1000 - int(time.time()))

    async def presign(self, root: str, paths: Sequence[str], *, seconds: int) -> list[str]:
        if not self.allows(root):
            raise Forbidden(f"{root!r} is outside the locations that this server may use")
        storage = self._storage if self._account.role_arn is None else await self._storage_of_session()
        return list(await storage.presign(root, paths, seconds=seconds))

    async def _storage_of_session(self) -> S3Storage:
        """The storage with the session of `url_seconds`, or a newer one.

        A URL ends with the session that signed it. The server's own storage uses a session until its last minutes.
        """
        from moorage.storage.s3 import S3Storage

        session = await self._sessions.own_session()
        if self._signer is None or self._signer[0] != session:
            self._signer = session, S3Storage(replace(self._account, key=session.key, role_arn=None))
        return self._signer[1]

    def parse(
        self, *, method: str, uri: str, headers: Mapping[str, tuple[str, ...]], body: str | None
    ) -> ClientRequest:
        request = S3Request(method, uri, headers, body)
        return _ParsedRequest(request, understand(self._account, request))

    async def sign(
        self, request: ClientRequest, locations: Sequence[str], *, now_ms: int
    ) -> dict[str, tuple[str, ...]]:
        if not isinstance(request, _ParsedRequest):
            raise TypeError(f"not a request of this store: {request}")
        key = await self._sessions.key_for(*locations, writes=request.writes)
        return sign(key, self._account.region, request.request, request.wish, now_ms=now_ms)

    def __repr__(self) -> str:
        return f"S3Delegation({self._account})"
