"""What the token endpoints of several APIs share: OAuth's names, and its form of an error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from moorage.core.errors import MoorageError, Unsupported
from moorage.http import Wire

ACCESS_TOKEN: Final = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105 - the name of a kind of token
EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
OPEN: Final = "open"
"""The token of a server without authentication. It is not a secret, and does not look like one."""

_NAMES = {401: "invalid_client", 403: "unauthorized_client", 500: "server_error", 503: "temporarily_unavailable"}


class OAuthError(msgspec.Struct, frozen=True, kw_only=True):
    """An error in the form that OAuth defines."""

    error: str
    error_description: str


_encode = msgspec.json.Encoder().encode


def render_error(wire: Wire, error: MoorageError, request_id: str) -> bytes:
    return _encode(OAuthError(error=wire.name, error_description=error.message))


def oauth_errors(table: Mapping[type[MoorageError], Wire]) -> dict[type[MoorageError], Wire]:
    """The error table of an API with the names of OAuth."""
    named = {error: Wire(wire.status, _NAMES.get(wire.status, "invalid_request")) for error, wire in table.items()}
    return named | {Unsupported: Wire(400, "unsupported_grant_type")}
