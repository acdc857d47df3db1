"""Google Cloud Storage: the server uses a service account, and clients get tokens that open some folders only.

The token of the service account is exchanged for one with a Credential Access Boundary. Its condition names the prefix
of the objects, and the prefix of listings, which Google checks with each request.
"""

from __future__ import annotations

import json
import re
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import msgspec

from moorage.core.errors import Unsupported
from moorage.core.vended import VendedToken
from moorage.storage.s3_account import bucket_and_key
from moorage.storage.token_delegation import post, require_fields

if TYPE_CHECKING:
    from moorage.storage.object_storage import ObjectStorage

_LIFETIME_SECONDS: Final = 3600
_SCOPE: Final = "https://www.googleapis.com/auth/cloud-platform"
_ACCESS_TOKEN: Final = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105 - the name of a token type
_READ: Final = ("inRole:roles/storage.objectViewer",)
_WRITE: Final = ("inRole:roles/storage.objectUser",)
_QUOTED: Final = re.compile(r"['\"\\]")


class GcsAccount(msgspec.Struct, frozen=True, kw_only=True):
    """A service account and the locations that this server may use with it."""

    email: str
    private_key_id: str
    private_key: str
    locations: tuple[str, ...]
    endpoint: str | None = None
    """Instead of Google's own addresses."""

    @property
    def token_url(self) -> str:
        return f"{self.endpoint or 'https://oauth2.googleapis.com'}/token"

    @property
    def sts_url(self) -> str:
        return f"{self.endpoint or 'https://sts.googleapis.com'}/v1/token"

    @property
    def key_file(self) -> str:
        """The key as the libraries of Google's stores read it, secret included."""
        own = {} if self.endpoint is None else {"gcs_base_url": self.endpoint}
        names = {"client_email": self.email, "private_key_id": self.private_key_id, "private_key": self.private_key}
        return json.dumps({"type": "service_account", **names, **own})

    def options(self) -> dict[str, str]:
        """Return the account as pylance's storage options, secret included."""
        return {"google_service_account_key": self.key_file, "client_max_retries": "3", "client_retry_timeout": "20"}

    def __repr__(self) -> str:
        return f"GcsAccount({self.email}: {', '.join(self.locations)})"


def open_storage(account: GcsAccount) -> ObjectStorage:
    from obstore.store import GCSStore

    from moorage.storage.object_storage import ObjectStorage

    def open_bucket(bucket: str) -> GCSStore:
        return GCSStore(
            bucket,
            service_account_key=account.key_file,
            client_options={"allow_http": True, "connect_timeout": "5s", "timeout": "30s"},
            retry_config={"max_retries": 3, "retry_timeout": timedelta(seconds=20)},
        )

    address = account.endpoint or "Google Cloud Storage"
    return ObjectStorage(address, account.locations, open_bucket, to_signed_path=_encoded)


def _encoded(key: str) -> str:
    """The path of an object in a URL, as Google's own libraries encode it. The signer of obstore does not encode keys:
    it would sign the URL of `p=a b` for `p=a%20b`, the folder that Delta writes for the value `a b`."""
    return quote(key, safe="/~")


async def request_token(account: GcsAccount, locations: tuple[str, ...], *, writes: bool) -> VendedToken:
    """A token that opens these locations and nothing else."""
    boundary = access_boundary(*locations, writes=writes)
    asked_at = time.time()
    answer = await post(
        "a Google Cloud token",
        account.sts_url,
        data={
            "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
            "requested_token_type": _ACCESS_TOKEN,
            "subject_token": await _own_token(account),
            "subject_token_type": _ACCESS_TOKEN,
            "options": json.dumps(boundary, separators=(",", ":")),
        },
    )
    found = answer.json()
    (token,) = require_fields("a Google Cloud token", found, "access_token")
    # A downscoped token may have no lifetime of its own: it ends with the token that it was made of.
    lifetime = int(found.get("expires_in") or _LIFETIME_SECONDS)
    return VendedToken(token, int((asked_at + lifetime) * 1000))


async def _own_token(account: GcsAccount) -> str:
    import jwt

    now = int(time.time())
    claims = {"iss": account.email, "scope": _SCOPE, "aud": account.token_url, "iat": now}
    assertion = jwt.encode(
        {**claims, "exp": now + _LIFETIME_SECONDS},
        account.private_key,
        algorithm="RS256",
        headers={"kid": account.private_key_id},
    )
    form = {"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion": assertion}
    answer = await post("a Google Cloud token", account.token_url, data=form)
    (token,) = require_fields("a Google Cloud token", answer.json(), "access_token")
    return str(token)


def access_boundary(*locations: str, writes: bool) -> dict[str, Any]:
    """The boundary of a token: for each location one rule to read and one to write."""
    rules = [rule for each in locations for rule in _rules(each, writes=writes)]
    return {"accessBoundary": {"accessBoundaryRules": rules}}


def _rules(location: str, *, writes: bool) -> list[dict[str, Any]]:
    """The rules with the prefix of the objects of a location, and of its listings."""
    if _QUOTED.search(location):
        raise Unsupported(
            f"cannot vend a token for '{location}': quotes and backslashes have a special meaning in conditions; "
            "use a location without them"
        )
    bucket, key = bucket_and_key(location)
    below = f"resource.name.startsWith('projects/_/buckets/{bucket}/objects/{key}')"
    listing = f"api.getAttribute('storage.googleapis.com/objectListPrefix', '').startsWith('{key}')"
    # Hadoop's file system first looks for an object with the name of the folder, and ends if that is forbidden. It is
    # outside the location, so a token that writes only reads it.
    folder = f"resource.name == 'projects/_/buckets/{bucket}/objects/{key.removesuffix('/')}'"
    reading = _rule(bucket, _READ, f"{below} || {folder} || {listing}")
    return [reading, _rule(bucket, _WRITE, f"{below} || {listing}")] if writes else [reading]


def _rule(bucket: str, permissions: tuple[str, ...], condition: str) -> dict[str, Any]:
    return {
        "availableResource": f"//storage.googleapis.com/projects/_/buckets/{bucket}",
        "availablePermissions": list(permissions),
        "availabilityCondition": {"expression": condition},
    }
