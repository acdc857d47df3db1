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
    COOKIE = "cookie"
    """The session of a browser, as `name=value`. It gives access to the pages of this server only."""
    ID_TOKEN = "id_token"  # noqa: S105 - the name of a kind of token
    """What an identity provider states about the user of a browser that logs in. No request carries it."""


class Credential(msgspec.Struct, frozen=True):
    scheme: CredentialScheme
    secret: str

    def __repr__(self) -> str:
        """Omits the secret, because this text may be logged."""
        return f"Credential({self.scheme})"
