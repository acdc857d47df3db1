"""The token endpoint of the Iceberg REST specification, which clients call when they are given credentials.

A server without authentication asks nobody for a token, and so gives one to everybody. One with it has
tokens of its own, and none for a name and a secret.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from moorage.api.iceberg.api import SINCE, iceberg
from moorage.http import FORM, Answer, Call, Example, NoQuery
from moorage.usecases.ports import Ports

_ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105 - the name of a kind of token
_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
_OPEN = "open"
"""What is given where nobody looks at it. It is no secret, and does not look like one."""


class OAuthTokenRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Credentials of a client, or a token to be exchanged."""

    grant_type: Annotated[str | None, Meta(description=f"`client_credentials` or `{_EXCHANGE}`.")] = None
    scope: str | None = None
    client_id: str | None = None
    client_secret: str | None = None
    requested_token_type: str | None = None
    subject_token: str | None = None
    subject_token_type: str | None = None
    actor_token: str | None = None
    actor_token_type: str | None = None


class OAuthTokenResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A token, to be sent as `Authorization: Bearer …`."""

    access_token: str
    token_type: Literal["bearer"] = "bearer"  # noqa: S105 - how to send it
    issued_token_type: str = _ACCESS_TOKEN
    scope: str | UnsetType = UNSET


class OAuthError(msgspec.Struct, frozen=True, kw_only=True):
    """A refusal in the words of OAuth, not of Iceberg."""

    error: Literal["invalid_request", "invalid_client", "unsupported_grant_type"]
    error_description: str


@iceberg.post(
    "/v1/oauth/tokens",
    operation="getToken",
    summary="Get a token.",
    stage="ga",
    since=SINCE,
    tags=("configuration",),
    body=OAuthTokenRequest,
    takes=FORM,
    answer=OAuthTokenResponse,
    also={400: "What was asked for is not offered; `OAuthError` says what.", 401: "The client names no credentials."},
    mutation=False,
    public=True,
    example=Example(
        body={"grant_type": "client_credentials", "client_id": "ann", "client_secret": "x", "scope": "catalog"},
        answer={"access_token": "open", "token_type": "bearer", "issued_token_type": _ACCESS_TOKEN, "scope": "catalog"},
    ),
)
async def get_token(call: Call[OAuthTokenRequest, NoQuery], ports: Ports) -> Answer:
    """A token for credentials or for another token. Clients call this by themselves when they are given either."""
    refusal = _refusal(call, is_closed=ports.access.authenticates)
    if refusal is not None:
        return Answer.json(refusal, 401 if refusal.error == "invalid_client" else 400)
    scope = UNSET if call.body.scope is None else call.body.scope
    return Answer.json(OAuthTokenResponse(access_token=_OPEN, scope=scope), headers=((b"cache-control", b"no-store"),))


def _refusal(call: Call[OAuthTokenRequest, NoQuery], *, is_closed: bool) -> OAuthError | None:
    body = call.body
    if body.grant_type is None:
        return OAuthError(error="invalid_request", error_description="grant_type is missing")
    if body.grant_type not in ("client_credentials", _EXCHANGE):
        said = f"{body.grant_type} is not offered; use client_credentials or {_EXCHANGE}"
        return OAuthError(error="unsupported_grant_type", error_description=said)
    if is_closed:
        said = "this server gives no tokens for credentials; set the client's token to one that it knows"
        return OAuthError(error="unsupported_grant_type", error_description=said)
    if body.grant_type == _EXCHANGE:
        missing = [name for name in ("subject_token", "subject_token_type") if not getattr(body, name)]
        said = f"{' and '.join(missing)} must be given with a token exchange"
        return OAuthError(error="invalid_request", error_description=said) if missing else None
    if body.client_id or (call.header("authorization") or "").lower().startswith("basic "):
        return None
    return OAuthError(error="invalid_client", error_description="client_id and client_secret are missing")
