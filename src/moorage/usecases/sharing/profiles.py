"""Profile files: what a recipient needs to read its shares."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from moorage.usecases.ports import Ports
from moorage.usecases.sharing.file_urls import PREFIX


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """A profile file of version 1, as every client of the sharing protocol reads it."""

    share_credentials_version: int = msgspec.field(default=1, name="shareCredentialsVersion")
    endpoint: str
    bearer_token: str = msgspec.field(name="bearerToken")
    expiration_time: str = msgspec.field(name="expirationTime")


def profile(ports: Ports, token: str, expires_at_ms: int) -> Profile:
    return Profile(endpoint=ports.public_url + PREFIX, bearer_token=token, expiration_time=_to_wire_time(expires_at_ms))


def _to_wire_time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{at_ms % 1000:03}Z"
