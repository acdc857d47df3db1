"""The credential by which a request authenticates its caller."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class CredentialScheme(StrEnum):
    """How a secret was presented. Each API accepts its own schemes."""

    BEARER = "bearer"
    API_KEY = "api_key"
    RECIPIENT = "recipient"
    """The token of a sharing recipient. It gives access to shares only."""


class Credential(msgspec.Struct, frozen=True):
    scheme: CredentialScheme
    secret: str

    def __repr__(self) -> str:
        """Omits the secret, because this text may be logged."""
        return f"Credential({self.scheme})"
