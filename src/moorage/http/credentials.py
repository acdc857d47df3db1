"""Where a request carries its credential. Each API names its reader (`Api(credential=…)`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from moorage.core.credentials import Credential, CredentialScheme
from moorage.http.calls import Headers

ReadCredential = Callable[[Headers], Credential | None]

_BEARER: Final = "bearer "


def bearer(headers: Headers) -> Credential | None:
    """`Authorization: Bearer …`."""
    return _bearer(headers, CredentialScheme.BEARER)


def bearer_or_api_key(headers: Headers) -> Credential | None:
    """The same, or `x-api-key`, as Lance's clients send it."""
    key = headers.get("x-api-key")
    return bearer(headers) if key is None else Credential(CredentialScheme.API_KEY, key)


def _bearer(headers: Headers, scheme: CredentialScheme) -> Credential | None:
    value = headers.get("authorization")
    if value is None or value[: len(_BEARER)].lower() != _BEARER:
        return None
    return Credential(scheme, value[len(_BEARER) :].strip())
