"""Where a request carries its credential. Each API names its reader (`Api(credential=…)`)."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple
from urllib.parse import unquote_plus

from moorage.core.callers import Caller
from moorage.core.credentials import Credential, CredentialScheme
from moorage.http.calls import Headers

ReadCredential = Callable[[Headers], Credential | None]

Authenticate = Callable[[Any, Credential | None, str], Awaitable[Caller]]
"""Authenticates the callers of an API that the access port does not know, from the ports, the credential and the IP
address of the client."""

_BEARER: Final = "bearer "
_BASIC: Final = "basic "


def bearer(headers: Headers) -> Credential | None:
    """`Authorization: Bearer …`."""
    return _bearer(headers, CredentialScheme.BEARER)


def bearer_or_api_key(headers: Headers) -> Credential | None:
    """The same, or `x-api-key`, as Lance's clients send it."""
    key = headers.get("x-api-key")
    return bearer(headers) if key is None else Credential(CredentialScheme.API_KEY, key)


def recipient_token(headers: Headers) -> Credential | None:
    """`Authorization: Bearer …` with the token of a sharing recipient."""
    return _bearer(headers, CredentialScheme.RECIPIENT)


class ClientSecret(NamedTuple):
    """The credentials of an OAuth client."""

    id: str | None
    secret: str

    def __repr__(self) -> str:
        """Omits the secret, because this text may be logged."""
        return f"ClientSecret({self.id!r})"


def client_secret(headers: Headers, id: str | None, secret: str | None) -> ClientSecret | None:
    """The credentials in the form of a token request or in its `Authorization: Basic …`; None if there are none."""
    value = headers.get("authorization") or ""
    if value[: len(_BASIC)].lower() == _BASIC:
        try:
            given_id, _, given_secret = b64decode(value[len(_BASIC) :], validate=True).decode().partition(":")
        except ValueError:
            return None
        return ClientSecret(unquote_plus(given_id), unquote_plus(given_secret))
    return ClientSecret(id, secret or "") if id or secret else None


def _bearer(headers: Headers, scheme: CredentialScheme) -> Credential | None:
    value = headers.get("authorization")
    if value is None or value[: len(_BEARER)].lower() != _BEARER:
        return None
    return Credential(scheme, value[len(_BEARER) :].strip())
