"""Token exchange (RFC 8693): a session token for a token of this server or of its identity provider."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from moorage.api.control.api import SINCE
from moorage.core.errors import InvalidInput, MoorageError, Unauthenticated, Unsupported
from moorage.http import FORM, WIRE, Answer, Api, Call, Example, NoBody, NoQuery, Wire
from moorage.usecases.identity.sessions import open_session
from moorage.usecases.ports import Ports

_ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105 - the name of a kind of token
_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
_OPEN = "open"
"""The token of a server without authentication. It is not a secret, and does not look like one."""


class TokenExchange(msgspec.Struct, frozen=True, kw_only=True):
    """The token to exchange."""

    grant_type: Annotated[str | None, Meta(description=f"`{_EXCHANGE}`.")] = None
    requested_token_type: Annotated[str | None, Meta(description=f"`{_ACCESS_TOKEN}`.")] = None
    subject_token: str | None = None
    subject_token_type: str | None = None
    actor_token: str | None = None
    actor_token_type: str | None = None
    ext: str | None = None


class ExchangedToken(msgspec.Struct, frozen=True, kw_only=True):
    """A session token, which the client sends as `Authorization: Bearer …`."""

    access_token: str
    issued_token_type: str = _ACCESS_TOKEN
    token_type: Literal["Bearer"] = "Bearer"  # noqa: S105 - the type of the token
    expires_in: Annotated[int, Meta(ge=0, le=2**31 - 1, description="Seconds.")]


class OAuthError(msgspec.Struct, frozen=True, kw_only=True):
    """An error in the form that OAuth defines."""

    error: str
    error_description: str


_encode = msgspec.json.Encoder().encode


def render_error(wire: Wire, error: MoorageError, request_id: str) -> bytes:
    return _encode(OAuthError(error=wire.name, error_description=error.message))


_OAUTH_ERRORS = {401: "invalid_client", 403: "unauthorized_client", 500: "server_error", 503: "temporarily_unavailable"}

sessions = Api(
    "sessions",
    prefix="/api/1.0/unity-control/auth",
    file="control.yaml",
    title="Sessions",
    description="Exchange of tokens.",
    tags={"sessions": "Short-lived tokens for clients that have another token."},
    errors={error: Wire(wire.status, _OAUTH_ERRORS.get(wire.status, "invalid_request")) for error, wire in WIRE.items()}
    | {Unsupported: Wire(400, "unsupported_grant_type")},
    unexpected="server_error",
    render_error=render_error,
    error_answer=OAuthError,
    defaults={"stage": "public_preview", "since": SINCE},
)


@sessions.post(
    "/tokens",
    operation="exchangeToken",
    summary="Exchange a token.",
    body=TokenExchange,
    takes=FORM,
    answer=ExchangedToken,
    errors=(InvalidInput, Unsupported, Unauthenticated),
    mutation=False,
    public=True,
    example=Example(
        body={
            "grant_type": _EXCHANGE,
            "requested_token_type": _ACCESS_TOKEN,
            "subject_token": "eyJhbGciOi…",
            "subject_token_type": "urn:ietf:params:oauth:token-type:id_token",
        },
        answer={
            "access_token": "moor_…",
            "issued_token_type": _ACCESS_TOKEN,
            "token_type": "Bearer",
            "expires_in": 3600,
        },
    ),
)
async def exchange_token(call: Call[TokenExchange, NoQuery], ports: Ports) -> Answer:
    """Exchange a token of this server or of its identity provider for a session token, which is valid for an hour."""
    body = call.body
    if body.grant_type != _EXCHANGE:
        raise Unsupported(f"grant_type {body.grant_type} is not supported; use {_EXCHANGE}")
    if body.requested_token_type not in (None, _ACCESS_TOKEN):
        raise InvalidInput(f"requested_token_type is {_ACCESS_TOKEN}", field="requested_token_type")
    for name in ("subject_token", "subject_token_type"):
        if not getattr(body, name):
            raise InvalidInput(f"{name} is missing", field=name)
    answer = ExchangedToken(access_token=_OPEN, expires_in=3600)
    if ports.access.authenticates:
        issued = await open_session(ports, body.subject_token or "")
        answer = ExchangedToken(access_token=issued.text, expires_in=issued.expires_in_seconds)
    return Answer.json(answer, headers=((b"cache-control", b"no-store"),))


@sessions.post(
    "/logout",
    operation="logout",
    summary="Forget the session.",
    mutation=False,
    public=True,
    status=200,
    example=Example(),
)
async def logout(call: Call[NoBody, NoQuery], ports: Ports) -> Answer:
    """Clear what a browser stores for this site. A session token ends by itself, or with the token it was made from."""
    return Answer.empty(200, headers=((b"clear-site-data", b'"cookies", "storage"'),))
