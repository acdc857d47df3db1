"""The object stores of a server: the account from the settings, and the external locations of the catalog.

A change of a location or credential holds for the next request on every server: both are read from the ledger each
time, and only what was opened with an unchanged record is used again.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from moorage.core.errors import Forbidden, InvalidInput, MoorageError, Unavailable
from moorage.core.ids import SecurableId
from moorage.core.locations import enclosing_locations, scheme_of
from moorage.core.names import name_key
from moorage.core.securables import Securable, Shelf
from moorage.core.storage_credentials import CredentialDetails, credential_of, location_of
from moorage.ledger.port import Ledger
from moorage.storage import azure, gcs
from moorage.storage.azure import AzureAccount
from moorage.storage.gcs import GcsAccount
from moorage.storage.port import ClientRequest, Delegation, Storage
from moorage.storage.s3_account import S3Account, S3Key
from moorage.storage.s3_delegation import S3Delegation
from moorage.storage.s3_sessions import S3Sessions
from moorage.storage.secrets import SecretKeys
from moorage.storage.token_delegation import TokenDelegation

if TYPE_CHECKING:
    from moorage.storage.object_storage import ObjectStorage

_PAGE = 1000


Account = S3Account | GcsAccount | AzureAccount


class OpenStore:
    """One store, as the server and its clients reach it."""

    storage: ObjectStorage
    delegation: Delegation

    def __init__(self, account: Account, sessions: S3Sessions | None = None) -> None:
        self._account = account
        self._sessions = sessions
        match account:
            case S3Account():
                from moorage.storage.s3 import S3Storage

                self._sessions = sessions or S3Sessions(account)
                s3 = S3Storage(account, self._sessions)
                self.storage, self.delegation = s3, S3Delegation(account, self._sessions, s3)
            case GcsAccount():
                self.storage = gcs.open_storage(account)
                request = partial(gcs.request_token, account)
                self.delegation = TokenDelegation(account.locations, request, self.storage.presign)
            case AzureAccount():
                self.storage = azure.open_storage(account)
                sas, presign = partial(azure.request_sas, account), azure.FileSigner(account).presign
                self.delegation = TokenDelegation(account.locations, sas, presign)

    async def options(self) -> dict[str, str]:
        """pylance's storage options, with the server's own key."""
        if isinstance(self._account, S3Account) and self._account.role_arn is not None and self._sessions is not None:
            return self._account.options((await self._sessions.own_session()).key)
        return self._account.options()


class CloudEndpoints(NamedTuple):
    """Where the clouds are, if not at their own addresses."""

    google: str | None = None
    azure: str | None = None


class _Area(NamedTuple):
    """An external location and its credential, at one revision each."""

    location: Securable
    credential: Securable | None
    """None if it was deleted: the location opens nothing then."""

    @property
    def key(self) -> tuple[object, ...]:
        opener = self.credential
        return self.location.id, self.location.revision, opener and (opener.id, opener.revision)


class ServerStores:
    """The port `ObjectStores`."""

    def __init__(
        self,
        ledger: Ledger,
        secrets: SecretKeys,
        account: S3Account | None,
        sessions: S3Sessions | None = None,
        endpoints: CloudEndpoints | None = None,
    ) -> None:
        """`account` is the one from the settings, and `sessions` are its sessions."""
        self._endpoints = endpoints or CloudEndpoints()
        self._ledger = ledger
        self._secrets = secrets
        self._account = account
        self._default = None if account is None else OpenStore(account, sessions)
        self._opened: dict[tuple[object, ...], OpenStore] = {}

    async def reach(self) -> None:
        """Raise Unavailable if the store from the settings cannot be reached. Log it if it cannot sign requests."""
        if self._default is not None:
            await self._default.storage.reach()
            await self._default.delegation.signs()

    # --- the port ----------------------------------------------------------------------------------

    async def find(self, location: str) -> Delegation | None:
        location = f"{scheme_of(location)}://{location.partition('://')[2]}"  # a client's metadata may have s3a://
        store = await self._store_of(location)
        return store.delegation if store is not None and store.delegation.allows(location) else None

    async def area_of(self, location: str) -> tuple[Securable, ...]:
        area = await self._area_of(location)
        return () if area is None else (area.location,)

    async def parse(
        self, *, method: str, uri: str, headers: Mapping[str, tuple[str, ...]], body: str | None
    ) -> tuple[Delegation, ClientRequest]:
        refusal = Forbidden("the request is for none of the object stores that this server may use")
        for store in await self._all():
            try:
                request = store.delegation.parse(method=method, uri=uri, headers=headers, body=body)
            except Forbidden as error:
                refusal = error
                continue
            # Several stores may have one endpoint: the bucket and the folder select the one with the right key.
            found = await self._store_of(f"{request.url.rpartition('/')[0]}/")
            return (found or store).delegation, request
        raise refusal

    async def locations(self) -> tuple[str, ...]:
        own = () if self._account is None else self._account.locations
        return (*own, *(await self._areas()))

    async def sign(self) -> bool:
        for store in await self._all():  # the first one suffices: a store that cannot be reached takes seconds
            if await store.delegation.signs():
                return True
        return False

    async def vend(self) -> bool:
        for store in await self._all():
            if await store.delegation.vends():
                return True
        return False

    async def require_usable(self, url: str, credential: Securable) -> None:
        try:
            await OpenStore(self._account_of(url, credential)).storage.reach()
        except Unavailable as error:
            raise InvalidInput(
                f"credential '{credential.name}' does not open '{url}': {error.message}", field="url"
            ) from None

    # --- for the server itself ---------------------------------------------------------------------

    async def storage_of(self, root: str) -> Storage | None:
        store = await self._store_of(f"{root.rstrip('/')}/")
        return None if store is None else store.storage

    async def options_of(self, location: str) -> dict[str, str] | None:
        """pylance's storage options for a location; None on local disk."""
        store = None if location.startswith("file:") else await self._store_of(f"{location.rstrip('/')}/")
        return None if store is None else await store.options()

    # --- internals ---------------------------------------------------------------------------------

    async def _all(self) -> list[OpenStore]:
        found = [] if self._default is None else [self._default]
        for url, area in (await self._areas()).items():
            try:
                found.append(self._open(url, area))
            except MoorageError:  # a location whose secret cannot be read disables no other
                continue
        return found

    async def _store_of(self, location: str) -> OpenStore | None:
        area = await self._area_of(location)
        return self._default if area is None else self._open(location_of(area.location).url, area)

    async def _area_of(self, location: str) -> _Area | None:
        if location.startswith("file:"):
            return None
        areas = await self._areas()
        if not areas:
            return None
        return next((areas[each] for each in reversed(enclosing_locations(location)) if each in areas), None)

    async def _areas(self) -> dict[str, _Area]:
        """The external locations by their folders. If two have the same folder, the first by name counts."""
        locations = await self._children(Shelf.EXTERNAL_LOCATION)
        if not locations:
            return {}
        credentials = {each.id: each for each in await self._children(Shelf.CREDENTIAL)}
        found: dict[str, _Area] = {}
        for each in locations:
            details = location_of(each)
            found.setdefault(details.url, _Area(each, credentials.get(details.credential)))
        return found

    async def _children(self, shelf: Shelf) -> list[Securable]:
        found: list[Securable] = []
        while True:
            after = name_key(found[-1].name) if found else ""
            items = (await self._ledger.children(self._ledger.root, shelf, after=after, limit=_PAGE)).items
            found += items
            if len(items) < _PAGE:
                return found

    def __repr__(self) -> str:
        return f"ServerStores({self._account})"

    def _open(self, url: str, area: _Area) -> OpenStore:
        store = self._opened.get(area.key)
        if store is None:
            if area.credential is None:
                raise Unavailable(f"the credential of external location '{area.location.name}' was deleted")
            store = OpenStore(self._account_of(url, area.credential))
            self._opened = {key: kept for key, kept in self._opened.items() if key[0] != area.location.id}
            self._opened[area.key] = store
        return store

    def _account_of(self, url: str, credential: Securable) -> Account:
        details = credential_of(credential)
        if details.gcp is not None:
            return GcsAccount(
                email=details.gcp.email,
                private_key_id=details.gcp.private_key_id,
                private_key=self._secret_of(credential.id, details),
                locations=(url,),
                endpoint=self._endpoints.google,
            )
        if details.azure is not None:
            return AzureAccount(
                directory_id=details.azure.directory_id,
                application_id=details.azure.application_id,
                client_secret=self._secret_of(credential.id, details),
                locations=(url,),
                endpoint=self._endpoints.azure,
            )
        return self._s3_account_of(url, credential.id, details)

    def _s3_account_of(self, url: str, id: SecurableId, details: CredentialDetails) -> S3Account:
        role, store = details.aws_role, details.s3
        sts = None if store.endpoint else f"https://sts.{store.region}.amazonaws.com"
        return S3Account(
            endpoint=store.endpoint or f"https://s3.{store.region}.amazonaws.com",
            region=store.region,
            key=self._key_of(id, details),
            path_style=store.path_style,
            locations=(url,),
            is_strict=store.endpoint is None,
            sts_endpoint=store.sts_endpoint or sts,
            role_arn=None if role is None else role.role_arn,
            external_id=None if role is None else role.external_id,
        )

    def _secret_of(self, id: SecurableId, details: CredentialDetails) -> str:
        return self._secrets.open(details.sealed or "", owner=id)

    def _key_of(self, id: SecurableId, details: CredentialDetails) -> S3Key:
        if details.aws_key_id is not None:
            return S3Key(access_key_id=details.aws_key_id, secret_access_key=self._secret_of(id, details))
        if self._account is None:
            raise Unavailable(
                "this credential is a role without a key, and the server has no key to assume it with; "
                "set s3_access_key_id and s3_secret_access_key, or give the credential a key"
            )
        return self._account.key
