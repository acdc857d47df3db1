"""The token endpoint of the Iceberg REST specification, which clients call when they are configured with credentials.

A server without authentication checks no tokens, so it issues one to every client. A server with authentication issues
a session token for a principal's name and token, which the client sends as its id and secret, and for a token.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from moorage.api.iceberg.api import SINCE, UNITY, WIRE
from moorage.api.oauth_words import ACCESS_TOKEN, EXCHANGE, OPEN, OAuthError, oauth_errors, render_error
from moorage.core.errors import InvalidInput, Unauthenticated, Unsupported
from moorage.http import FORM, Answer, Api, Call, Example, NoQuery
from moorage.http.credentials import ClientSecret, client_secret
from moorage.usecases.identity.sessions import open_session
from moorage.usecases.ports import Ports


class OAuthTokenRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The credentials of a client, or a token to exchange."""

    grant_type: Annotated[str | None, Meta(description=f"`client_credentials` or `{EXCHANGE}`.")] = None
    scope: str | None = None
    client_id: str | None = None
    client_secret: str | None = None
    requested_token_type: str | None = None
    subject_token: str | None = None
    subject_token_type: str | None = None
    actor_token: str | None = None
    actor_token_type: str | None = None


class OAuthTokenResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A token, which the client sends as `Authorization: Bearer …`."""

    access_token: str
    token_type: Literal["bearer"] = "bearer"  # noqa: S105 - the type of the token
    issued_token_type: str = ACCESS_TOKEN
    expires_in: Annotated[int, Meta(ge=0, le=2**31 - 1, description="Seconds.")] | UnsetType = UNSET
    scope: str | UnsetType = UNSET


oauth = Api(
    "oauth",
    prefix="/iceberg/v1/oauth",
    also_at=[f"{UNITY}/iceberg/v1/oauth"],
    file="iceberg.yaml",
    title="Tokens for Iceberg clients",
    description="The token endpoint of the Iceberg REST catalog.",
    tags={"tokens": "Tokens for clients that are configured with credentials."},
    errors=oauth_errors(WIRE),
    unexpected="server_error",
    render_error=render_error,
    error_answer=OAuthError,
)


@oauth.post(
    "/tokens",
    operation="getToken",
    summary="Get a token.",
    stage="ga",
    since=SINCE,
    body=OAuthTokenRequest,
    takes=FORM,
    answer=OAuthTokenResponse,
    errors=(InvalidInput, Unsupported, Unauthenticated),
    mutation=False,
    public=True,
    example=Example(
        body={"grant_type": "client_credentials", "client_id": "ann", "client_secret": "x", "scope": "catalog"},
        answer={"access_token": "open", "token_type": "bearer", "issued_token_type": ACCESS_TOKEN, "scope": "catalog"},
    ),
)
async def get_token(call: Call[OAuthTokenRequest, NoQuery], ports: Ports) -> Answer:
    """Get a token for credentials or for another token. Clients call this when they are configured with either."""
    body = call.body
    client = _require_grant(call)
    scope = UNSET if body.scope is None else body.scope
    answer = OAuthTokenResponse(access_token=OPEN, scope=scope)
    if ports.access.authenticates:
        issued = await open_session(ports, client.secret, client_id=client.id)
        answer = OAuthTokenResponse(access_token=issued.text, expires_in=issued.expires_in_seconds, scope=scope)
    return Answer.json(answer, headers=((b"cache-control", b"no-store"),))


def _require_grant(call: Call[OAuthTokenRequest, NoQuery]) -> ClientSecret:
    body = call.body
    if body.grant_type is None:
        raise InvalidInput("grant_type is missing", field="grant_type")
    if body.grant_type not in ("client_credentials", EXCHANGE):
        raise Unsupported(f"grant_type {body.grant_type} is not supported; use client_credentials or {EXCHANGE}")
    if body.grant_type == EXCHANGE:
        for name in ("subject_token", "subject_token_type"):
            if not getattr(body, name):
                raise InvalidInput(f"{name} is required for a token exchange", field=name)
        return ClientSecret(None, body.subject_token or "")
    found = client_secret(call.headers, body.client_id, body.client_secret)
    if found is None:
        raise Unauthenticated("client_id and client_secret are missing")
    return found
