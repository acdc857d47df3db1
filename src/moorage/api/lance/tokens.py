"""The token endpoint of the Lance Namespace specification, for clients that have a client id and secret.

A server without authentication needs no token, so it returns one to every client. A server with authentication issues
a session token for a principal's name and token, which the client sends as its id and secret.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from moorage.api.lance.api import lance
from moorage.api.oauth_words import OPEN
from moorage.core.errors import InvalidInput, Unauthenticated
from moorage.http import FORM, Answer, Call, Example, NoQuery
from moorage.http.credentials import client_secret
from moorage.usecases.identity.sessions import open_session
from moorage.usecases.ports import Ports


class TokenRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The credentials of a client."""

    grant_type: Annotated[str | None, Meta(description="`client_credentials`.")] = None
    client_id: str | None = None
    client_secret: str | None = None
    scope: str | None = None


class TokenResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A token. Send it as `Authorization: Bearer …`."""

    access_token: str
    token_type: Literal["bearer"] = "bearer"  # noqa: S105 - the token's type, not a secret
    expires_in: Annotated[int, Meta(ge=0, le=2**31 - 1, description="Seconds.")] | UnsetType = UNSET


@lance.post(
    "/oauth/token",
    operation="GetToken",
    summary="Get a token.",
    tags=("tokens",),
    query=NoQuery,
    body=TokenRequest,
    takes=FORM,
    answer=TokenResponse,
    errors=(InvalidInput, Unauthenticated),
    mutation=False,
    public=True,
    example=Example(
        body={"grant_type": "client_credentials", "client_id": "ann", "client_secret": "x"},
        answer={"access_token": "open", "token_type": "bearer"},
    ),
)
async def get_token(call: Call[TokenRequest, NoQuery], ports: Ports) -> Answer:
    """Get a token for credentials: OAuth's client credentials grant."""
    body = call.body
    if body.grant_type != "client_credentials":
        raise InvalidInput(f"{body.grant_type!r} is not supported; use client_credentials", field="grant_type")
    client = client_secret(call.headers, body.client_id, body.client_secret)
    if client is None:
        raise Unauthenticated("client_id and client_secret are missing", field="client_id")
    answer = TokenResponse(access_token=OPEN)
    if ports.access.authenticates:
        issued = await open_session(ports, client.secret, client_id=client.id)
        answer = TokenResponse(access_token=issued.text, expires_in=issued.expires_in_seconds)
    return Answer.json(answer, headers=((b"cache-control", b"no-store"),))
