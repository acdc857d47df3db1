"""The token endpoint of the Lance Namespace specification, for clients that are given a name and a secret.

A server without authentication asks nobody for a token, and so gives one to everybody. One with it has
tokens of its own, and none for a name and a secret.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from moorage.api.lance.api import lance
from moorage.core.errors import InvalidInput, Unauthenticated
from moorage.http import FORM, Answer, Call, Example, NoQuery
from moorage.usecases.ports import Ports

_OPEN: Final = "open"
"""What is given where nobody looks at it. It is no secret, and does not look like one."""


class TokenRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Credentials of a client."""

    grant_type: Annotated[str | None, Meta(description="`client_credentials`.")] = None
    client_id: str | None = None
    client_secret: str | None = None
    scope: str | None = None


class TokenResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A token, to be sent as `Authorization: Bearer …`."""

    access_token: str
    token_type: Literal["bearer"] = "bearer"  # noqa: S105 - how to send it


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
    """A token for credentials: OAuth's grant for clients that act for themselves."""
    body = call.body
    if body.grant_type != "client_credentials":
        raise InvalidInput(f"{body.grant_type!r} is not offered; use client_credentials", field="grant_type")
    if ports.access.authenticates:
        raise Unauthenticated("this server gives no tokens for credentials; send one that it knows")
    if not body.client_id and not (call.header("authorization") or "").lower().startswith("basic "):
        raise Unauthenticated("client_id and client_secret are missing", field="client_id")
    return Answer.json(TokenResponse(access_token=_OPEN), headers=((b"cache-control", b"no-store"),))
