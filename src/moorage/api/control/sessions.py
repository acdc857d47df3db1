"""Token exchange (RFC 8693): a session token for a token of this server or of its identity provider."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from moorage.api.control.api import SINCE
from moorage.api.oauth_words import ACCESS_TOKEN, EXCHANGE, OPEN, OAuthError, oauth_errors, render_error
from moorage.core.errors import InvalidInput, Unauthenticated, Unsupported
from moorage.http import FORM, WIRE, Answer, Api, Call, Example, NoBody, NoQuery
from moorage.usecases.identity.sessions import open_session
from moorage.usecases.ports import Ports


class TokenExchange(msgspec.Struct, frozen=True, kw_only=True):
    """The token to exchange."""

    grant_type: Annotated[str | None, Meta(description=f"`{EXCHANGE}`.")] = None
    requested_token_type: Annotated[str | None, Meta(description=f"`{ACCESS_TOKEN}`.")] = None
    subject_token: str | None = None
    subject_token_type: str | None = None
    actor_token: str | None = None
    actor_token_type: str | None = None
    ext: str | None = None


class ExchangedToken(msgspec.Struct, frozen=True, kw_only=True):
    """A session token, which the client sends as `Authorization: Bearer …`."""

    access_token: str
    issued_token_type: str = ACCESS_TOKEN
    token_type: Literal["Bearer"] = "Bearer"  # noqa: S105 - the type of the token
    expires_in: Annotated[int, Meta(ge=0, le=2**31 - 1, description="Seconds.")]


sessions = Api(
    "sessions",
    prefix="/api/1.0/unity-control/auth",
    file="control.yaml",
    title="Sessions",
    description="Exchange of tokens.",
    tags={"sessions": "Short-lived tokens for clients that have another token."},
    errors=oauth_errors(WIRE),
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
            "grant_type": EXCHANGE,
            "requested_token_type": ACCESS_TOKEN,
            "subject_token": "eyJhbGciOi…",
            "subject_token_type": "urn:ietf:params:oauth:token-type:id_token",
        },
        answer={
            "access_token": "moor_…",
            "issued_token_type": ACCESS_TOKEN,
            "token_type": "Bearer",
            "expires_in": 3600,
        },
    ),
)
async def exchange_token(call: Call[TokenExchange, NoQuery], ports: Ports) -> Answer:
    """Exchange a token of this server or of its identity provider for a session token, which is valid for an hour."""
    body = call.body
    if body.grant_type != EXCHANGE:
        raise Unsupported(f"grant_type {body.grant_type} is not supported; use {EXCHANGE}")
    if body.requested_token_type not in (None, ACCESS_TOKEN):
        raise InvalidInput(f"requested_token_type is {ACCESS_TOKEN}", field="requested_token_type")
    for name in ("subject_token", "subject_token_type"):
        if not getattr(body, name):
            raise InvalidInput(f"{name} is missing", field=name)
    answer = ExchangedToken(access_token=OPEN, expires_in=3600)
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
    """Clear what a browser stores for this site, if the request has a token. A page of another site cannot send one.

    A session token ends by itself, or with the token it was made from.
    """
    clear = (b"clear-site-data", b'"cookies", "storage"')
    return Answer.empty(200, headers=() if call.header("authorization") is None else (clear,))
