"""What a request presents to prove who sent it."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class CredentialScheme(StrEnum):
    """How a secret was presented. Each API accepts its own schemes."""

    BEARER = "bearer"
    API_KEY = "api_key"
    RECIPIENT = "recipient"
    """The token of a sharing recipient. It opens shares and nothing else."""


class Credential(msgspec.Struct, frozen=True):
    scheme: CredentialScheme
    secret: str

    def __repr__(self) -> str:
        """Without the secret: this may be logged."""
        return f"Credential({self.scheme})"
