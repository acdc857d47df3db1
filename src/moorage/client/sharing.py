"""Shares and recipients."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from moorage.client.answers import Nothing, Page
from moorage.client.transport import API, Transport, address

UNITY: Final = "/api/2.1/unity-catalog"


class PartitionValue(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A condition on a partition column. Without a value, EQUAL means null."""

    name: str
    op: Literal["EQUAL", "LIKE"] = "EQUAL"
    value: str | None = None
    recipient_property_key: str | None = None


class Partition(msgspec.Struct, frozen=True, kw_only=True):
    """Conditions that must all hold. A row is shared if at least one partition holds."""

    values: tuple[PartitionValue, ...]


class SharedObject(msgspec.Struct, frozen=True, kw_only=True):
    """A table or schema in a share."""

    name: str
    data_object_type: str
    shared_as: str
    comment: str | None = None
    added_at: int
    added_by: str
    history_data_sharing_status: str
    partitions: tuple[Partition, ...] = ()
    start_version: int | None = None
    status: str = "ACTIVE"


class Share(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    id: str
    comment: str | None = None
    display_name: str | None = None
    properties: dict[str, str] = {}
    owner: str
    created_at: int
    updated_at: int
    objects: tuple[SharedObject, ...] | None = None


class RecipientToken(msgspec.Struct, frozen=True, kw_only=True):
    """A token of a recipient. Its link is None after it was used."""

    id: str
    activation_url: str | None = None
    created_at: int
    expiration_time: int


class Recipient(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    id: str
    authentication_type: str
    comment: str | None = None
    owner: str
    activated: bool
    activation_url: str | None = None
    expiration_time: int | None = None
    tokens: tuple[RecipientToken, ...] = ()


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """Equal requests of a recipient within about half a second, and what they read."""

    operation: str
    share: str | None = None
    table: str | None = None
    version: int | None = None
    address: str
    refusal: str | None = None
    requests: int
    files: int
    bytes: int
    first_at_ms: int
    last_at_ms: int


class Profile(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The profile file of a recipient. Its token is secret."""

    share_credentials_version: int
    endpoint: str
    bearer_token: str
    expiration_time: str | None = None


class _Shares(msgspec.Struct, frozen=True, kw_only=True):
    shares: tuple[Share, ...]
    next_page_token: str | None = None


class _Recipients(msgspec.Struct, frozen=True, kw_only=True):
    recipients: tuple[Recipient, ...]
    next_page_token: str | None = None


class _Assignment(msgspec.Struct, frozen=True, kw_only=True):
    principal: str


class _Permissions(msgspec.Struct, frozen=True, kw_only=True):
    privilege_assignments: tuple[_Assignment, ...]
    next_page_token: str | None = None


class Shares:
    """The shares of a catalog. An object is the full name of a table, or of a schema with all its tables."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def create(self, name: str, *, comment: str | None = None, key: str | None = None) -> Share:
        body = {"name": name, "comment": comment}
        return self._transport.change("POST", f"{UNITY}/shares", Share, body=body, key=key)

    def get(self, name: str) -> Share:
        """One share with its objects."""
        return self._transport.read(_share(name), Share, {"include_shared_data": True})

    def list(self) -> Iterator[Share]:
        """All shares without their objects, fetched page by page."""
        token: str | None = None
        while token != "":
            page = self._transport.read(f"{UNITY}/shares", _Shares, {"page_token": token})
            yield from page.shares
            token = page.next_page_token or ""

    def add(
        self,
        name: str,
        *objects: str,
        shared_as: str | None = None,
        history: bool = False,
        partitions: Sequence[Partition] = (),
    ) -> Share:
        """Add tables and schemas in one step. `shared_as` is the name that recipients see, for a single object."""
        given: dict[str, Any] = {"history_data_sharing_status": "ENABLED" if history else "DISABLED"}
        if shared_as is not None:
            given["shared_as"] = shared_as
        if partitions:
            given["partitions"] = list(partitions)
        return self._update(name, [("ADD", {"name": each, **given}) for each in objects])

    def remove(self, name: str, *objects: str) -> Share:
        """Remove tables and schemas in one step."""
        return self._update(name, [("REMOVE", {"name": each}) for each in objects])

    def _update(self, name: str, updates: Sequence[tuple[str, Mapping[str, Any]]]) -> Share:
        body = {"updates": [{"action": action, "data_object": given} for action, given in updates]}
        return self._transport.change("PATCH", _share(name), Share, body=body)

    def grant(self, name: str, *recipients: str) -> None:
        self._permit(name, [{"principal": each, "add": ["SELECT"]} for each in recipients])

    def revoke(self, name: str, *recipients: str) -> None:
        self._permit(name, [{"principal": each, "remove": ["SELECT"]} for each in recipients])

    def _permit(self, name: str, changes: Sequence[Mapping[str, Any]]) -> None:
        path = f"{_share(name)}/permissions"
        self._transport.change("PATCH", path, _Permissions, body={"changes": list(changes)})

    def recipients(self, name: str) -> Iterator[str]:
        """The names of the recipients that may read a share."""
        token: str | None = None
        while token != "":
            page = self._transport.read(f"{_share(name)}/permissions", _Permissions, {"page_token": token})
            yield from (each.principal for each in page.privilege_assignments)
            token = page.next_page_token or ""

    def delete(self, name: str) -> None:
        self._transport.change("DELETE", _share(name), Nothing)


class Recipients:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def create(
        self,
        name: str,
        *,
        comment: str | None = None,
        expires_at_ms: int | None = None,
        addresses: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        key: str | None = None,
    ) -> Recipient:
        """Create a recipient. `addresses` are the IP addresses and networks that it may read from; empty: any."""
        body = {
            "name": name,
            "comment": comment,
            "expiration_time": expires_at_ms,
            "ip_access_list": {"allowed_ip_addresses": list(addresses)},
            "properties_kvpairs": {"properties": properties or {}},
        }
        return self._transport.change("POST", f"{UNITY}/recipients", Recipient, body=body, key=key)

    def get(self, name: str) -> Recipient:
        return self._transport.read(_recipient(name), Recipient)

    def list(self) -> Iterator[Recipient]:
        """All recipients, fetched page by page."""
        token: str | None = None
        while token != "":
            page = self._transport.read(f"{UNITY}/recipients", _Recipients, {"page_token": token})
            yield from page.recipients
            token = page.next_page_token or ""

    def rotate(self, name: str, *, keep_seconds: int = 0) -> Recipient:
        """Create a new activation link. The current token stays valid for `keep_seconds`."""
        body = {"existing_token_expire_in_seconds": keep_seconds}
        return self._transport.change("POST", f"{_recipient(name)}/rotate-token", Recipient, body=body)

    def profile(self, code: str) -> Profile:
        """Use an activation link, or its code: it returns the profile once. A lost response loses the token."""
        path = f"{UNITY}/public/data_sharing_activation{address(code.rstrip('/').rpartition('/')[2])}"
        return self._transport.read(path, Profile, patience_s=0.0)

    def accesses(self, name: str, *, since_ms: int = 0) -> Iterator[Access]:
        """What a recipient read since a moment, the oldest first."""
        path = f"{API}/recipients{address(name)}/accesses"
        return self._transport.list(path, Page[Access], {"since_ms": since_ms})

    def delete(self, name: str) -> None:
        self._transport.change("DELETE", _recipient(name), Nothing)


def _share(name: str) -> str:
    return f"{UNITY}/shares{address(name)}"


def _recipient(name: str) -> str:
    return f"{UNITY}/recipients{address(name)}"
