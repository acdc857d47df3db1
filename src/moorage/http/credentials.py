"""Where a request carries its credential. Each API names its reader (`Api(credential=…)`)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from moorage.core.callers import Caller
from moorage.core.credentials import Credential, CredentialScheme
from moorage.http.calls import Headers

ReadCredential = Callable[[Headers], Credential | None]

Authenticate = Callable[[Any, Credential | None, str], Awaitable[Caller]]
"""Authenticates the callers of an API that the access port does not know, from the ports, the credential and the IP
address of the client."""

_BEARER: Final = "bearer "


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


def _bearer(headers: Headers, scheme: CredentialScheme) -> Credential | None:
    value = headers.get("authorization")
    if value is None or value[: len(_BEARER)].lower() != _BEARER:
        return None
    return Credential(scheme, value[len(_BEARER) :].strip())
