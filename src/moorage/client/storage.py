"""Storage credentials and external locations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from moorage.client.answers import Nothing
from moorage.client.sharing import UNITY
from moorage.client.transport import Transport, address


class StorageCredential(msgspec.Struct, frozen=True, kw_only=True):
    """A key or role that opens an object store, without its secret."""

    name: str
    id: str
    owner: str
    comment: str | None = None
    aws_iam_role: dict[str, str | None] | None = None
    aws_access_key: dict[str, str] | None = None
    gcp_service_account_key: dict[str, str] | None = None
    azure_service_principal: dict[str, str] | None = None
    s3_store: dict[str, Any] | None = None


class ExternalLocation(msgspec.Struct, frozen=True, kw_only=True):
    """A folder in an object store, and the credential that opens it."""

    name: str
    id: str
    owner: str
    url: str
    credential_name: str | None = None
    comment: str | None = None


class _Credentials(msgspec.Struct, frozen=True, kw_only=True):
    credentials: tuple[StorageCredential, ...]
    next_page_token: str | None = None


class _Locations(msgspec.Struct, frozen=True, kw_only=True):
    external_locations: tuple[ExternalLocation, ...]
    next_page_token: str | None = None


class StorageCredentials:
    """The storage credentials of a catalog. `opens` is a field of the API, such as `aws_access_key`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def create(self, name: str, opens: Mapping[str, Any], *, comment: str | None = None) -> StorageCredential:
        body = {"name": name, "comment": comment, **opens}
        return self._transport.change("POST", f"{UNITY}/credentials", StorageCredential, body=body)

    def get(self, name: str) -> StorageCredential:
        return self._transport.read(f"{UNITY}/credentials{address(name)}", StorageCredential)

    def list(self) -> Iterator[StorageCredential]:
        """All credentials, fetched page by page."""
        token: str | None = None
        while token != "":
            page = self._transport.read(f"{UNITY}/credentials", _Credentials, {"page_token": token})
            yield from page.credentials
            token = page.next_page_token or ""

    def delete(self, name: str, *, force: bool = False) -> None:
        path = f"{UNITY}/credentials{address(name)}?force={str(force).lower()}"
        self._transport.change("DELETE", path, Nothing)


class ExternalLocations:
    """The external locations of a catalog."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def create(
        self, name: str, url: str, credential: str, *, comment: str | None = None, check: bool = True
    ) -> ExternalLocation:
        """Create a location. Without `check`, the folder is not listed with the credential first."""
        body = {
            "name": name,
            "url": url,
            "credential_name": credential,
            "comment": comment,
            "skip_validation": not check,
        }
        return self._transport.change("POST", f"{UNITY}/external-locations", ExternalLocation, body=body)

    def get(self, name: str) -> ExternalLocation:
        return self._transport.read(f"{UNITY}/external-locations{address(name)}", ExternalLocation)

    def list(self) -> Iterator[ExternalLocation]:
        """All locations, fetched page by page."""
        token: str | None = None
        while token != "":
            page = self._transport.read(f"{UNITY}/external-locations", _Locations, {"page_token": token})
            yield from page.external_locations
            token = page.next_page_token or ""

    def delete(self, name: str, *, force: bool = False) -> None:
        path = f"{UNITY}/external-locations{address(name)}?force={str(force).lower()}"
        self._transport.change("DELETE", path, Nothing)
