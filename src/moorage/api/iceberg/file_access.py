"""How a client reaches the files of a table: the settings of the store, and the access that the client requests.

A client without a key of its own names the mechanisms that it supports in `X-Iceberg-Access-Delegation`.
"""

from __future__ import annotations

import logging
from hashlib import blake2b
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec

from moorage.api.iceberg.bodies import Properties, StorageCredential
from moorage.core.errors import Unavailable
from moorage.core.locations import scheme_of
from moorage.core.vended import StoreSettings, VendedKey, VendedToken
from moorage.http import NO_STORE, Call
from moorage.http.answers import Header
from moorage.usecases.iceberg.vend_credentials import VendedTable, vend_for_id
from moorage.usecases.ports import Ports

log = logging.getLogger(__name__)

_VENDED, _SIGNED = "vended-credentials", "remote-signing"
_SECRETS = ("s3.secret-access-key", "s3.session-token", "gcs.oauth2.token", "adls.sas-token")
_EXPIRES = "expires-at"

_encode = msgspec.json.Encoder().encode


class FileAccess(NamedTuple):
    """The configuration of a client for the files of one table."""

    config: Properties
    credentials: tuple[StorageCredential, ...] = ()

    def fields(self) -> dict[str, Any]:
        """The fields of a response that has it."""
        found = {"config": self.config, "storage-credentials": self.credentials}
        return {name: value for name, value in found.items() if value}

    @property
    def headers(self) -> tuple[Header, ...]:
        return (NO_STORE,) if self.credentials else ()

    @property
    def fingerprint(self) -> bytes:
        """Differs for every other configuration. It has the id of a key, but no secret: it becomes part of an ETag."""
        public = {name: value for name, value in self.config.items() if not _is_secret(name)}
        return _encode((public, [each.prefix for each in self.credentials])) if public else b""


def _is_secret(name: str) -> bool:
    return name.startswith(_SECRETS) and _EXPIRES not in name


NOTHING = FileAccess({})


async def file_access(
    call: Call[Any, Any], ports: Ports, table: str, id: str, location: str, *, is_new: bool = False
) -> FileAccess:
    """The configuration for the files of a table, empty if they are on local disk.

    If the store should issue a key, but does not, a load fails with Unavailable. A request that created the table was
    carried out and must not fail, so its response has no key then; the client gets one when it loads the table.
    """
    found = None if scheme_of(location) == "file" else await ports.stores.find(location)
    if found is None:
        return NOTHING
    store = _store_config(found.settings)
    requested = _requested(call)
    try:
        vended = await vend_for_id(ports, call.caller, id) if _VENDED in requested else None
    except Unavailable as error:
        if not is_new:
            raise
        log.warning("vended no key for a new table: %s", error.message)
        return FileAccess(store)
    if vended is not None:
        refresh = _path(call, table, "credentials") if len(vended.locations) == 1 else None
        return FileAccess({**store, **_key_config(vended, refresh)}, credentials_of(vended))
    if _SIGNED in requested and await found.signs():
        return FileAccess({**store, **_signing_config(_path(call, table, "sign"))})
    return FileAccess(store)


def _store_config(settings: StoreSettings | None) -> Properties:
    if settings is None:
        return {}
    return {
        "s3.endpoint": settings.endpoint,
        "s3.region": settings.region,
        "client.region": settings.region,
        "s3.path-style-access": "true" if settings.path_style else "false",
    }


def credentials_of(vended: VendedTable) -> tuple[StorageCredential, ...]:
    """One entry per location, all with the same key."""
    config = _key_config(vended)
    return tuple(StorageCredential(prefix=each.rstrip("/"), config=config) for each in vended.locations)


def _requested(call: Call[Any, Any]) -> frozenset[str]:
    header = call.header("x-iceberg-access-delegation") or ""
    return frozenset(each.strip().lower() for each in header.split(","))


def _path(call: Call[Any, Any], table: str, endpoint: str) -> str:
    """The path of a table's endpoint, as a client appends it to the address of the catalog."""
    names = {**call.params, "table": table}
    prefix, namespace, name = (quote(names[part], safe="") for part in ("prefix", "namespace", "table"))
    return f"v1/{prefix}/namespaces/{namespace}/tables/{name}/{endpoint}"


def _key_config(vended: VendedTable, refresh: str | None = None) -> Properties:
    key, expires = vended.key, str(vended.key.expires_at_ms)
    match key:
        case VendedKey():
            config = {
                "s3.access-key-id": key.access_key_id,
                "s3.secret-access-key": key.secret_access_key,
                "s3.session-token": key.session_token,
                "s3.session-token-expires-at-ms": expires,
            }
        case VendedToken():
            config = {"gcs.oauth2.token": key.token, "gcs.oauth2.token-expires-at": expires}
        case _:
            config = {
                f"adls.sas-token.{key.account}": key.sas_token,
                f"adls.sas-token-expires-at-ms.{key.account}": expires,
            }
    # Java clients get their next key there. They refuse a response with the credentials of several locations.
    return config if refresh is None else {**config, "client.refresh-credentials-endpoint": refresh}


def _signing_config(endpoint: str) -> Properties:
    return {
        "s3.remote-signing-enabled": "true",
        # Java clients up to 1.10 read the first, 1.11 reads the second; later ones derive the path.
        "s3.signer.endpoint": endpoint,
        "signer.endpoint": endpoint,
        # PyIceberg also reads the first, and signs only with these.
        "s3.signer": "S3V4RestSigner",
        "py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO",
        # PyIceberg shares one file system among tables with equal settings, and would send the requests for one table
        # to the signing endpoint of another. The endpoint is not among those settings, but this timeout is.
        "s3.connect-timeout": _timeout_of(endpoint),
    }


def _timeout_of(endpoint: str) -> str:
    """PyIceberg's default of 60 seconds and less than a tenth of a second more, different for each endpoint."""
    digest = int.from_bytes(blake2b(endpoint.encode(), digest_size=8).digest())
    return f"60.0{digest % 10**12:012d}"
