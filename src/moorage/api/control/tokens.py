"""Tokens of users and service principals."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from moorage.api.control.api import control
from moorage.api.control.scim import EXAMPLE_TOKEN_ID, Name
from moorage.api.errands import errand_of
from moorage.core.errors import InvalidInput, SecurableNotFound
from moorage.core.securables import Securable
from moorage.http import Answer, Call, Example, NoBody, NoQuery
from moorage.usecases.identity import tokens
from moorage.usecases.identity.tokens import MAX_LIFETIME_DAYS
from moorage.usecases.ports import Ports

routes = control.section(tags=("tokens",))

Scope = Annotated[
    Literal["all", "read"], Meta(description="`read`: the token can change nothing, whatever its principal may do.")
]
Millis = Annotated[int, Meta(ge=0, le=2**53 - 1, description="Milliseconds since 1970.")]


class NewToken(msgspec.Struct, frozen=True, kw_only=True):
    """A token to create."""

    principal: Annotated[
        Name | None,
        Meta(description="Default: the caller. For administrators: any user or service principal."),
    ] = None
    comment: str | None = None
    lifetime_days: (
        Annotated[int, Meta(ge=1, le=MAX_LIFETIME_DAYS, description="Without it, the token does not expire.")] | None
    ) = None
    scope: Scope = "all"


class TokenInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A token without its secret."""

    token_id: str
    principal: str
    comment: str | None
    scope: Scope
    created_at: Millis
    created_by: str
    expires_at: Millis | None
    last_used_at: Annotated[Millis | None, Meta(description="To within ten minutes.")]


class CreatedToken(TokenInfo, frozen=True, kw_only=True):
    """A token with its secret, which is shown only here."""

    token: str


class TokenList(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens of a principal."""

    tokens: list[TokenInfo]


class TokenQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Whose tokens are listed."""

    principal: Annotated[Name | UnsetType | None, Meta(description="Default: the caller.")] = UNSET


def _info(stored: Securable, principal: str, last_used_ms: int | None) -> dict[str, Any]:
    return {
        "token_id": stored.id,
        "principal": principal,
        "comment": stored.doc.comment,
        "scope": tokens.scope_of(stored),
        "created_at": stored.created_at_ms,
        "created_by": stored.created_by,
        "expires_at": tokens.expires_at_ms(stored),
        "last_used_at": last_used_ms,
    }


_EXAMPLE: dict[str, Any] = {
    "token_id": EXAMPLE_TOKEN_ID,
    "principal": "ann@example.com",
    "comment": "notebook",
    "scope": "read",
    "created_at": 1794643200000,
    "created_by": "admin",
    "expires_at": 1802419200000,
    "last_used_at": None,
}


@routes.post(
    "/tokens",
    operation="createToken",
    summary="Create a token.",
    body=NewToken,
    answer=CreatedToken,
    status=201,
    errors=(InvalidInput,),
    example=Example(
        body={"principal": "ann@example.com", "comment": "notebook", "lifetime_days": 90, "scope": "read"},
        answer=_EXAMPLE | {"token": "moor_…"},
    ),
)
async def create_token(call: Call[NewToken, NoQuery], ports: Ports) -> Answer:
    """Create a token. The response is the only place where its secret appears."""
    body = call.body
    issued = await tokens.create(
        ports,
        errand_of(call, ports),
        principal=body.principal,
        comment=body.comment,
        lifetime_ms=tokens.lifetime_ms(body.lifetime_days),
        scope=body.scope,
    )
    made = CreatedToken(token=issued.text, **_info(issued.stored, issued.principal, None))
    return Answer.json(made, status=201, headers=((b"cache-control", b"no-store"),))


@routes.get(
    "/tokens",
    operation="listTokens",
    summary="List tokens.",
    query=TokenQuery,
    answer=TokenList,
    errors=(InvalidInput,),
    example=Example(query={"principal": "ann@example.com"}, answer={"tokens": [_EXAMPLE]}),
)
async def list_tokens(call: Call[NoBody, TokenQuery], ports: Ports) -> Answer:
    """List the caller's tokens, or as an administrator those of another principal."""
    principal = call.query.principal
    found = await tokens.list_tokens(ports, call.caller, principal=None if principal is UNSET else principal)
    return Answer.json(
        TokenList(tokens=[TokenInfo(**_info(each.stored, each.principal, each.last_used_ms)) for each in found])
    )


@routes.delete(
    "/tokens/{id}",
    operation="revokeToken",
    summary="Revoke a token.",
    status=204,
    errors=(SecurableNotFound,),
    example=Example(path={"id": EXAMPLE_TOKEN_ID}),
)
async def revoke_token(call: Call[NoBody, NoQuery], ports: Ports) -> Answer:
    """Revoke a token. Every server refuses it from the next request on."""
    await tokens.revoke(ports, errand_of(call, ports), call.params["id"])
    return Answer.empty()
