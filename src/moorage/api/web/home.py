"""The first page: who you are, the addresses for clients, and your tokens."""

from __future__ import annotations

from datetime import UTC, datetime
from math import inf
from typing import Any, Final

from moorage import fresh
from moorage.api.web.api import web
from moorage.api.web.clients import addresses
from moorage.api.web.cookies import session_of
from moorage.api.web.forms import form_token_of
from moorage.api.web.markup import NOTHING, Markup, joined, markup, page
from moorage.core.callers import EVERYONE, Caller
from moorage.core.principals import principal_of
from moorage.core.securables import Securable
from moorage.core.tokens import parse_token
from moorage.http import Answer, Call, Example, NoBody, NoQuery
from moorage.usecases.identity import principals, tokens
from moorage.usecases.identity.tokens import IssuedToken, ListedToken
from moorage.usecases.ports import Ports

_LOG_OUT: Final = """<form method="post" action="/logout"><input type="hidden" name="csrf" value="{csrf}">
<button class="quiet">Log out</button></form>"""

_HOME: Final = """{notice}{person}
<h2>Connect a client</h2>
<p class="soft">Click an address to select it. <code>my_catalog</code> is the name of a catalog here.</p>
<div class="grid">
{addresses}</div>
{tokens}"""

_OPEN: Final = Markup("""<h1>This is your catalog</h1>
<p>No login is needed: the server has no authentication and can be reached from this machine only. To open it to others,
start it with <code>--auth on</code>.</p>
""")

_PERSON: Final = """<h1>{title}</h1>
<p class="soft">{about}</p>
<ul class="badges" aria-label="Your groups">{badges}</ul>
"""

_ISSUED: Final = """<div class="notice" role="status">
<h3>Your new token</h3>
<p>Copy it now. It is shown only once, and the server does not store it.</p>
<code class="secret" id="new-token">{text}</code>
</div>
"""

_TOKENS: Final = """<h2>Your tokens</h2>
<p class="soft">Programs present a token to act as you. Revoke those that you no longer need.</p>
<div class="card">
<table>
<thead><tr><th scope="col">Used for</th><th scope="col">Access</th><th scope="col">Created</th>
<th scope="col">Expires</th><th scope="col">Last used</th><th scope="col"></th></tr></thead>
<tbody>
{rows}</tbody>
</table>
{form}</div>
"""

_CREATE: Final = """<h3>Create a token</h3>
<form method="post" action="/tokens" class="fields">
<input type="hidden" name="csrf" value="{csrf}">
<input type="hidden" name="once" value="{once}">
<div><label for="comment">Used for</label>
<input id="comment" name="comment" required maxlength="200" placeholder="notebook" autocomplete="off"></div>
<div><label for="days">Expires after</label>
<select id="days" name="days">{lifetimes}</select></div>
<div><label for="scope">Access</label>
<select id="scope" name="scope"><option value="all">all that I may do</option>
<option value="read">only read</option></select></div>
<button>Create token</button>
</form>
"""

_LIFETIMES: Final = {7: "7 days", 30: "30 days", 90: "90 days", 365: "1 year"}
_PRESELECTED: Final = 90
_LIFETIME: Final = '<option value="{value}"{mark}>{text}</option>'

_ROW: Final = """<tr>
<td data-label="Used for">{comment}{mark}</td><td data-label="Access">{scope}</td>
<td data-label="Created">{created}</td><td data-label="Expires">{expires}</td><td data-label="Last used">{used}</td>
<td>{action}</td>
</tr>
"""

_REVOKE: Final = """<details><summary>Revoke</summary><form method="post" action="/tokens/revoke">
<input type="hidden" name="csrf" value="{csrf}"><input type="hidden" name="id" value="{id}">
<button class="danger" aria-label="Revoke {comment} now">Revoke now</button></form></details>"""


@web.get(
    "/",
    operation="showHome",
    summary="Show the first page.",
    content_types=("text/html",),
    example=Example(answer="<!doctype html>…"),
)
async def show_home(call: Call[NoBody, NoQuery], ports: Ports) -> Answer:
    """Show who the caller is, the addresses for clients, and the caller's tokens."""
    return await home_page(call, ports)


async def home_page(call: Call[Any, Any], ports: Ports, issued: IssuedToken | None = None) -> Answer:
    """The first page. `issued`: a new token to show once."""
    person = await principals.me(ports, call.caller)
    if person is None or not ports.access.authenticates:
        content = markup(
            _HOME, notice="", person=_OPEN, addresses=addresses(ports.public_url, with_token=False), tokens=""
        )
        return page("Moorage", content)
    csrf = form_token_of(call, ports)
    content = markup(
        _HOME,
        notice=NOTHING if issued is None else markup(_ISSUED, text=issued.text),
        person=_person(call.caller, person),
        addresses=addresses(ports.public_url, with_token=True),
        tokens=_tokens(call, await tokens.list_tokens(ports, call.caller), csrf, ports.now_ms()),
    )
    return page("Moorage", content, aside=markup(_LOG_OUT, csrf=csrf))


def _person(caller: Caller, person: Securable) -> Markup:
    groups = sorted(caller.principals - {caller.name, EVERYONE})
    badges = [markup('<li class="badge">{name}</li>', name=name) for name in groups]
    if caller.is_admin:
        badges.insert(0, Markup('<li class="badge strong">administrator</li>'))
    if caller.is_read_only:
        badges.append(Markup('<li class="badge">this login only reads</li>'))
    shown = principal_of(person).display_name
    return markup(
        _PERSON,
        title=shown or person.name,
        about=f"You are logged in as {person.name}."
        + ("" if groups else " You belong to no group but that of all users."),
        badges=joined(badges),
    )


def _tokens(call: Call[Any, Any], listed: list[ListedToken], csrf: str, now_ms: int) -> Markup:
    own = parse_token(session_of(call.headers).partition("=")[2])
    newest_first = sorted(listed, key=lambda each: -each.stored.created_at_ms)
    own_id, reads = None if own is None else own.id, call.caller.is_read_only
    rows = [
        _row(each, csrf, is_own=each.stored.id == own_id, is_revocable=not reads and each.stored.id != own_id)
        for each in newest_first
    ]
    form = NOTHING
    if not reads:  # a login that only reads creates and revokes no tokens
        form = markup(_CREATE, csrf=csrf, once=fresh.secret(), lifetimes=_lifetimes(call.caller, now_ms))
    return markup(_TOKENS, rows=joined(rows), form=form)


def _lifetimes(caller: Caller, now_ms: int) -> Markup:
    """The lifetimes to choose from: none is longer than that of the token by which the caller logged in."""
    until_ms = inf if caller.until_ms is None else caller.until_ms
    options = [
        markup(_LIFETIME, value=days, mark=Markup(" selected") if days == _PRESELECTED else NOTHING, text=text)
        for days, text in _LIFETIMES.items()
        if now_ms + days * tokens.DAY_MS <= until_ms
    ]
    last = "never" if caller.until_ms is None else "the end of the token of this login"
    return joined([*options, markup(_LIFETIME, value="never", mark=NOTHING, text=last)])


def _row(token: ListedToken, csrf: str, *, is_own: bool, is_revocable: bool) -> Markup:
    stored = token.stored
    comment = stored.doc.comment or "no comment"
    expires_at_ms = tokens.expires_at_ms(stored)
    return markup(
        _ROW,
        comment=comment,
        mark=Markup(' <span class="badge">this browser</span>') if is_own else NOTHING,
        scope="only read" if tokens.scope_of(stored) == "read" else "all",
        created=_time(stored.created_at_ms),
        expires=Markup("never") if expires_at_ms is None else _time(expires_at_ms),
        used=Markup("never") if token.last_used_ms is None else _time(token.last_used_ms),
        action=NOTHING if not is_revocable else markup(_REVOKE, csrf=csrf, id=stored.id, comment=comment),
    )


def _time(at_ms: int) -> Markup:
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    title = f"{at:%Y-%m-%d %H:%M} UTC"
    return markup(
        '<time datetime="{exact}" title="{title}">{shown}</time>',
        exact=at.isoformat(timespec="seconds"),
        title=title,
        shown=f"{at.day} {at:%b %Y}",
    )
