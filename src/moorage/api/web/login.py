"""Log in with a token or at an identity provider, and log out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final
from urllib.parse import urlencode, urlsplit

import msgspec
from msgspec import Meta

from moorage.api.errands import errand_of
from moorage.api.web.api import web
from moorage.api.web.cookies import SESSION, cookie_name, delete_cookie, find_cookie, session_of, set_cookie
from moorage.api.web.forms import require_own_form, require_own_page
from moorage.api.web.markup import Markup, joined, markup, page, redirect
from moorage.core.browsers import ATTEMPT_MS, HOME, local_path
from moorage.core.errors import Forbidden, Unauthenticated
from moorage.http import FORM, Answer, Call, Example, NoBody, NoQuery
from moorage.usecases.identity.browser_sessions import begin_login, finish_login, log_in_by_token, log_out
from moorage.usecases.ports import Ports

_EXAMPLE_PAGE: Final = "<!doctype html>…"

_LOGIN: Final = """<div class="card">
<h1>Log in</h1>
{providers}<form method="post" action="/login" class="stack">
<input type="hidden" name="next" value="{next}">
<div>
<label for="token">Token</label>
<input id="token" name="token" type="password" autocomplete="current-password" required autofocus placeholder="moor_…"
 aria-describedby="about-token">
</div>
<button class="wide">Log in with the token</button>
<p class="soft" id="about-token">A token begins with <code>moor_</code>. An administrator creates your first one, with
<code>moorage token create</code>.</p>
</form>
</div>"""


_PROVIDER: Final = """<p><a class="button wide" href="/login/oidc?{query}">Log in with {host}</a></p>
"""
_OR: Final = Markup('<p class="or">or with a token</p>\n')
_ATTEMPT: Final = "moorage-login"


class Next(msgspec.Struct, frozen=True, kw_only=True):
    """Where to go after the login."""

    next: Annotated[str | None, Meta(description="A path of this server. Anything else is ignored.")] = None


class ProviderQuery(Next, frozen=True, kw_only=True):
    """The identity provider at which to log in."""

    issuer: Annotated[str, Meta(description="One of the providers that the login page shows.")]


class ProviderAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of an identity provider: a code, or an error."""

    state: Annotated[str, Meta(description="What the request of this browser has sent.")] = ""
    code: Annotated[str, Meta(description="The code that the server redeems.")] = ""
    iss: Annotated[str | None, Meta(description="The sender of the answer (RFC 9207).")] = None
    error: Annotated[str | None, Meta(description="Why the provider refused the login.")] = None


class TokenForm(msgspec.Struct, frozen=True, kw_only=True):
    """The form of the login page."""

    token: str = ""
    next: str | None = None


class SessionForm(msgspec.Struct, frozen=True, kw_only=True):
    """A form of a session, with the token that proves it."""

    csrf: str = ""


@web.get(
    "/login",
    operation="showLogin",
    summary="Show the login page.",
    query=Next,
    content_types=("text/html",),
    also={303: "This server has no authentication. See its first page."},
    example=Example(query={"next": "/"}, answer=_EXAMPLE_PAGE),
    public=True,
)
async def show_login(call: Call[NoBody, Next], ports: Ports) -> Answer:
    """Show the ways to log in."""
    if not ports.access.authenticates:
        return redirect(HOME)
    path = local_path(call.query.next)
    content = markup(_LOGIN, next=path, providers=_providers(ports.browser_logins.issuers, path))
    return page("Log in to Moorage", content, narrow=True)


def _providers(issuers: Sequence[str], path: str) -> Markup:
    """A link for each identity provider. A link, because a form may not lead to another site."""
    links = [
        markup(_PROVIDER, query=urlencode({"issuer": issuer, "next": path}), host=urlsplit(issuer).netloc)
        for issuer in issuers
    ]
    return joined([*links, _OR] if links else [])


@web.post(
    "/login",
    operation="logIn",
    summary="Log in with a token.",
    body=TokenForm,
    takes=FORM,
    status=303,
    content_types=(),
    errors=(Unauthenticated, Forbidden),
    example=Example(body={"token": "moor_…", "next": "/"}),
    public=True,
    keyed=False,
)
async def log_in(call: Call[TokenForm, NoQuery], ports: Ports) -> Answer:
    """Open a session for the principal of a token. Only the login page of this server can send this form."""
    require_own_page(call, ports)
    if not ports.access.authenticates:
        return redirect(HOME)
    name = cookie_name(SESSION, ports.public_url)
    session = await log_in_by_token(ports, errand_of(call, ports), call.body.token.strip(), cookie=name)
    cookie = set_cookie(name, session.value, session.lifetime_seconds)
    return redirect(local_path(call.body.next), [cookie])


@web.get(
    "/login/oidc",
    operation="beginLogin",
    summary="Log in at an identity provider.",
    query=ProviderQuery,
    status=303,
    content_types=(),
    example=Example(query={"issuer": "https://login.example.com", "next": "/"}),
    public=True,
)
async def begin(call: Call[NoBody, ProviderQuery], ports: Ports) -> Answer:
    """Send the browser to the login of an identity provider that the settings name."""
    url, sealed = await begin_login(ports, call.query.issuer, local_path(call.query.next))
    name = cookie_name(_ATTEMPT, ports.public_url)
    return redirect(url, [set_cookie(name, sealed, ATTEMPT_MS // 1000)])


@web.get(
    "/login/callback",
    operation="finishLogin",
    summary="Return from an identity provider.",
    query=ProviderAnswer,
    status=303,
    content_types=(),
    errors=(Unauthenticated, Forbidden),
    example=Example(query={"state": "b7Qe…", "code": "SplxlO…"}),
    public=True,
    mutation=True,
    keyed=False,
)
async def finish(call: Call[NoBody, ProviderAnswer], ports: Ports) -> Answer:
    """Open a session for the user whom the identity provider names. It works once, in the browser that began it."""
    answer = call.query
    name = cookie_name(_ATTEMPT, ports.public_url)
    if answer.error is not None:
        raise Unauthenticated(f"the identity provider refused the login ({answer.error[:60]!r})")
    session_name = cookie_name(SESSION, ports.public_url)
    session, path = await finish_login(
        ports,
        errand_of(call, ports),
        find_cookie(call.headers, name) or "",
        state=answer.state,
        code=answer.code,
        issuer=answer.iss,
        cookie=session_name,
    )
    cookie = set_cookie(session_name, session.value, session.lifetime_seconds)
    return redirect(path, [cookie, delete_cookie(name)])


@web.post(
    "/logout",
    operation="logOut",
    summary="Log out.",
    body=SessionForm,
    takes=FORM,
    status=303,
    content_types=(),
    example=Example(body={"csrf": "0f9c…"}),
    keyed=False,
)
async def end_session(call: Call[SessionForm, NoQuery], ports: Ports) -> Answer:
    """End the session. Every server refuses it from the next request on."""
    require_own_form(call, ports, call.body.csrf)
    await log_out(ports, errand_of(call, ports), session_of(call.headers).partition("=")[2])
    return redirect("/login", [delete_cookie(cookie_name(SESSION, ports.public_url))])
