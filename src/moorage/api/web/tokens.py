"""Create and revoke personal tokens with a form."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from moorage.api.errands import errand_of
from moorage.api.web.api import web
from moorage.api.web.forms import require_own_form
from moorage.api.web.home import home_page
from moorage.api.web.markup import redirect
from moorage.core.browsers import HOME
from moorage.core.entries import IdempotencyKey
from moorage.core.errors import InvalidInput, SecurableNotFound
from moorage.core.principals import Scope
from moorage.http import FORM, Answer, Call, Example, NoQuery
from moorage.usecases.identity import tokens
from moorage.usecases.ports import Ports

_EXAMPLE_ID = "01939c1e-5a6f-7cc1-9d3e-8f5a2b7c4e04"


class NewTokenForm(msgspec.Struct, frozen=True, kw_only=True):
    """The form for a new token. `once` is the idempotency key: a form that is sent again makes no second token."""

    csrf: str = ""
    once: Annotated[str, Meta(max_length=100)] = ""
    comment: Annotated[str, Meta(max_length=200)] = ""
    days: Literal["7", "30", "90", "365", "never"] = "90"
    scope: Scope = "all"


class RevokedTokenForm(msgspec.Struct, frozen=True, kw_only=True):
    """The form that revokes a token."""

    csrf: str = ""
    id: str = ""


@web.post(
    "/tokens",
    operation="createOwnToken",
    summary="Create a personal token.",
    body=NewTokenForm,
    takes=FORM,
    content_types=("text/html",),
    errors=(InvalidInput,),
    example=Example(
        body={"csrf": "0f9c…", "once": "b7Qe…", "comment": "notebook", "days": "90", "scope": "read"},
        answer="<!doctype html>…",
    ),
    keyed=False,
)
async def create_own_token(call: Call[NewTokenForm, NoQuery], ports: Ports) -> Answer:
    """Create a token for the caller. The page that answers is the only place where its secret appears."""
    form = call.body
    require_own_form(call, ports, form.csrf)
    errand = errand_of(call, ports)
    if form.once:
        key = IdempotencyKey(value=form.once, fingerprint=call.fingerprint(), lifetime_ms=ports.key_lifetime_ms)
        errand = replace(errand, key=key)
    issued = await tokens.create(
        ports,
        errand,
        comment=form.comment.strip() or None,
        lifetime_ms=tokens.lifetime_ms(None if form.days == "never" else int(form.days)),
        scope=form.scope,
    )
    return await home_page(call, ports, issued)


@web.post(
    "/tokens/revoke",
    operation="revokeOwnToken",
    summary="Revoke a personal token.",
    body=RevokedTokenForm,
    takes=FORM,
    status=303,
    content_types=(),
    errors=(SecurableNotFound,),
    example=Example(body={"csrf": "0f9c…", "id": _EXAMPLE_ID}),
    keyed=False,
)
async def revoke_own_token(call: Call[RevokedTokenForm, NoQuery], ports: Ports) -> Answer:
    """Revoke a token of the caller, or end one of its sessions. Every server refuses it from the next request on."""
    require_own_form(call, ports, call.body.csrf)
    await tokens.revoke(ports, errand_of(call, ports), call.body.id)
    return redirect(HOME)
