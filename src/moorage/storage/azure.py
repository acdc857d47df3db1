"""Azure Data Lake Storage: the server uses a service principal, and clients get signatures for one folder each.

A user delegation SAS is signed with a key that Azure issues to the service principal for a limited time, not with the
key of the storage account. It names the folder (`sr=d`) and its depth, so it opens nothing else.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlencode
from xml.etree import ElementTree

import msgspec

from moorage.core.errors import Unavailable, Unsupported
from moorage.core.vended import VendedSas
from moorage.storage.confine import require_key
from moorage.storage.s3_account import bucket_and_key
from moorage.storage.token_delegation import post, require_fields

if TYPE_CHECKING:
    from moorage.storage.object_storage import ObjectStorage

VERSION: Final = "2023-11-03"
_LIFETIME_SECONDS: Final = 3600
_SKEW_SECONDS: Final = 300
"""A signature is valid a little earlier than now: the clocks of servers differ."""
_LONGEST_KEY_SECONDS: Final = 7 * 24 * 3600
"""Azure issues no key for longer. URLs of files are valid for at most as long."""
_READ: Final = "rl"
_WRITE: Final = "racwdl"
_KEY: Final = ("SignedOid", "SignedTid", "SignedStart", "SignedExpiry", "SignedService", "SignedVersion", "Value")


class AzureAccount(msgspec.Struct, frozen=True, kw_only=True):
    """A service principal and the locations that this server may use with it, in one storage account."""

    directory_id: str
    application_id: str
    client_secret: str
    locations: tuple[str, ...]
    """abfss://container@account.dfs.core.windows.net/folder/."""
    endpoint: str | None = None
    """Instead of Azure's own addresses."""

    @property
    def host(self) -> str:
        return bucket_and_key(self.locations[0])[0].partition("@")[2]

    @property
    def name(self) -> str:
        return self.host.partition(".")[0]

    @property
    def token_url(self) -> str:
        return f"{self.endpoint or 'https://login.microsoftonline.com'}/{self.directory_id}/oauth2/v2.0/token"

    @property
    def blob_url(self) -> str:
        return f"{self.endpoint}/{self.name}" if self.endpoint else f"https://{self.name}.blob.core.windows.net"

    def options(self) -> dict[str, str]:
        """Return the account as pylance's storage options, secret included."""
        return {
            "azure_storage_account_name": self.name,
            "azure_storage_tenant_id": self.directory_id,
            "azure_storage_client_id": self.application_id,
            "azure_storage_client_secret": self.client_secret,
            "client_max_retries": "3",
            "client_retry_timeout": "20",
        }

    def __repr__(self) -> str:
        return f"AzureAccount({self.application_id} at {self.host}: {', '.join(self.locations)})"


def open_storage(account: AzureAccount) -> ObjectStorage:
    from obstore.store import AzureStore

    from moorage.storage.object_storage import ObjectStorage

    def open_container(bucket: str) -> AzureStore:
        own = {} if account.endpoint is None else {"authority_host": account.endpoint, "endpoint": account.blob_url}
        return AzureStore(
            bucket.partition("@")[0],
            account_name=account.name,
            tenant_id=account.directory_id,
            client_id=account.application_id,
            client_secret=account.client_secret,
            client_options={"allow_http": True, "connect_timeout": "5s", "timeout": "30s"},
            retry_config={"max_retries": 3, "retry_timeout": timedelta(seconds=20)},
            **own,  # type: ignore[arg-type]
        )

    return ObjectStorage(account.blob_url, account.locations, open_container)


async def request_sas(account: AzureAccount, locations: tuple[str, ...], *, writes: bool) -> VendedSas:
    """A signature that opens one folder and nothing else."""
    if len(locations) != 1:
        raise Unsupported("files of a table in several folders of Azure cannot be opened with one signature")
    container, key = bucket_and_key(locations[0])
    if not key:
        raise Unsupported(f"'{locations[0]}' is a whole container; a signature is for a folder")
    expires = int(time.time()) + _LIFETIME_SECONDS
    start = _text(expires - _LIFETIME_SECONDS - _SKEW_SECONDS)
    issued = await _delegation_key(account, start, _text(expires))
    parameters = {
        "sp": _WRITE if writes else _READ,
        "st": start,
        "se": _text(expires),
        "spr": _protocols(account),
        "sv": VERSION,
        "sr": "d",
        "sdd": str(key.removesuffix("/").count("/") + 1),
        **key_parameters(issued),
    }
    resource = f"/blob/{account.name}/{container.partition('@')[0]}/{key.removesuffix('/')}"
    signature = sign(string_to_sign(parameters, resource), issued["Value"])
    return VendedSas(account.host, urlencode({**parameters, "sig": signature}), expires * 1000)


class FileSigner:
    """Makes URLs that read one file each. The key from Azure is kept and used while it outlasts the URLs.

    obstore could sign them too, but it signs the encoded path, and Azure compares the signature with the decoded one. A
    URL of a file with a space or a percent sign in its path would be refused.
    """

    def __init__(self, account: AzureAccount) -> None:
        self._account = account
        self._lock = asyncio.Lock()
        self._key: dict[str, str] = {}
        self._key_expires = 0

    async def presign(self, root: str, paths: Sequence[str], *, seconds: int) -> list[str]:
        container, folder = bucket_and_key(root)
        container = container.partition("@")[0]
        now = int(time.time())
        issued = await self._issued(now, now + seconds)
        parameters = {
            "sp": "r",
            "st": _text(now - _SKEW_SECONDS),
            "se": _text(now + seconds),
            "spr": _protocols(self._account),
            "sv": VERSION,
            "sr": "b",
            **key_parameters(issued),
        }
        urls = []
        for path in paths:
            key = f"{container}/{folder}{require_key(path)}"
            signature = sign(string_to_sign(parameters, f"/blob/{self._account.name}/{key}"), issued["Value"])
            query = urlencode({**parameters, "sig": signature})
            urls.append(f"{self._account.blob_url}/{quote(key, safe='/~')}?{query}")
        return urls

    async def _issued(self, now: int, expires: int) -> dict[str, str]:
        async with self._lock:
            if expires > self._key_expires:
                key_expires = min(expires + _LIFETIME_SECONDS, now + _LONGEST_KEY_SECONDS)
                start = _text(now - _SKEW_SECONDS)
                self._key = await _delegation_key(self._account, start, _text(key_expires))
                self._key_expires = key_expires
            return self._key


def _protocols(account: AzureAccount) -> str:
    return "https" if account.endpoint is None else "https,http"


async def _delegation_key(account: AzureAccount, start: str, expiry: str) -> dict[str, str]:
    form = {
        "grant_type": "client_credentials",
        "client_id": account.application_id,
        "client_secret": account.client_secret,
        "scope": "https://storage.azure.com/.default",
    }
    answer = await post("an Azure token", account.token_url, data=form)
    (token,) = require_fields("an Azure token", answer.json(), "access_token")
    body = f'<?xml version="1.0" encoding="utf-8"?><KeyInfo><Start>{start}</Start><Expiry>{expiry}</Expiry></KeyInfo>'
    found = await post(
        "a user delegation key",
        f"{account.blob_url}/?restype=service&comp=userdelegationkey",
        headers={"authorization": f"Bearer {token}", "x-ms-version": VERSION, "content-type": "application/xml"},
        content=body,
    )
    try:
        root = ElementTree.fromstring(found.text.lstrip("\ufeff"))  # noqa: S314 - the store is trusted with all files
    except ElementTree.ParseError:
        raise Unavailable("a user delegation key was not issued: the response is not XML") from None
    fields = {each.tag: each.text for each in root.iter()}
    return dict(zip(_KEY, require_fields("a user delegation key", fields, *_KEY), strict=True))


def key_parameters(issued: Mapping[str, str]) -> dict[str, str]:
    """The parameters of a signature that name the key it was made with."""
    names = ("skoid", "sktid", "skt", "ske", "sks", "skv")
    return dict(zip(names, (issued[each] for each in _KEY[:-1]), strict=True))


def string_to_sign(parameters: Mapping[str, str], resource: str) -> str:
    """The text that is signed, for version 2020-12-06 and later. Absent parameters are empty lines."""
    names = ("skoid", "sktid", "skt", "ske", "sks", "skv", "saoid", "suoid", "scid", "sip", "spr", "sv", "sr")
    last = ("", "ses", "rscc", "rscd", "rsce", "rscl", "rsct")  # the first is the time of a snapshot
    first = [parameters.get(name, "") for name in ("sp", "st", "se")]
    return "\n".join((*first, resource, *(parameters.get(name, "") for name in (*names, *last))))


def sign(text: str, key: str) -> str:
    return base64.b64encode(hmac.new(base64.b64decode(key), text.encode(), hashlib.sha256).digest()).decode()


def _text(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
