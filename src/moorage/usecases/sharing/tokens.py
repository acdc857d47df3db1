"""Page and refresh tokens: authenticated, bound to recipient, table and request, and of limited life."""

from __future__ import annotations

import hashlib
from typing import Any, Final, TypeVar

import msgspec

from moorage.core.errors import InvalidInput
from moorage.usecases.catalog.paging import seal, unseal
from moorage.usecases.ports import Ports
from moorage.usecases.sharing.shared_tables import SharedTable

LIFETIME_MS: Final = 24 * 60 * 60 * 1000


class Token(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What every token is bound to."""

    table: str
    recipient: str
    request: str = ""
    expires_at_ms: int


class RefreshToken(Token, frozen=True, kw_only=True):
    """Pins the version that URLs are refreshed for."""

    version: int


class PageToken(Token, frozen=True, kw_only=True):
    """Where the next page of a snapshot begins: after the file with this key."""

    version: int
    after: str


class ChangesPageToken(Token, frozen=True, kw_only=True):
    """Where the next page of changes begins: at this action of this version."""

    first: int
    last: int
    version: int
    skip: int


T = TypeVar("T", bound=Token)


def fingerprint(*values: Any) -> str:
    """A digest of everything in a request that determines which files it gets."""
    return hashlib.blake2b(msgspec.json.encode(values), digest_size=12).hexdigest()


def seal_token(ports: Ports, token: Token) -> str:
    return seal(ports.page_secret, type(token).__name__, msgspec.json.encode(token).decode())


def unseal_token(
    ports: Ports, kind: type[T], text: str, *, field: str, shared: SharedTable, recipient: str, request: str = ""
) -> T:
    """The content of a token that this server issued for this recipient, table and request."""
    token = msgspec.json.decode(unseal(ports.page_secret, kind.__name__, text, field=field), type=kind)
    if (token.table, token.recipient) != (scope_of(shared), recipient):
        raise InvalidInput(f"{field} is a token of another table; use it where it was issued", field=field)
    if token.request != request:
        raise InvalidInput(
            f"{field} belongs to a request with other parameters; repeat all of them with it", field=field
        )
    if token.expires_at_ms <= ports.now_ms():
        raise InvalidInput(f"{field} has expired; start again without it", field=field)
    return token


def scope_of(shared: SharedTable) -> str:
    return f"{shared.share_id}/{shared.id}"
