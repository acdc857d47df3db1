"""Markup: every value is escaped unless it is markup already. A page has no scripts and loads nothing."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Iterable
from html import escape
from importlib.resources import files
from typing import Final

from moorage.http import NO_STORE, Answer
from moorage.http.answers import Header


class Markup(str):
    """Text that is inserted into a page as it is."""

    __slots__ = ()


def markup(template: str, **values: object) -> Markup:
    """The template with its values. Text is escaped, for elements and for quoted attributes."""
    shown = {name: value if isinstance(value, Markup) else escape(str(value)) for name, value in values.items()}
    return Markup(template.format(**shown))


NOTHING: Final = Markup("")


def joined(parts: Iterable[Markup]) -> Markup:
    return Markup("".join(parts))


_STYLE: Final = Markup(files(__package__).joinpath("style.css").read_text(encoding="utf-8"))
_STYLE_HASH: Final = b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_ICON: Final = Markup(
    '<svg viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="2" stroke-linecap="round" '
    'aria-hidden="true"><circle cx="12" cy="4.5" r="2.5"/>'
    '<path d="M12 7v14M7.5 10.5h9M4 14c0 4 3.5 7 8 7s8-3 8-7"/></svg>'
)

# A login may end at an identity provider, but no form is sent there: the way to it is a link. So a form, and what the
# answer to it redirects to, stays on this server. The page may not be framed, because a framed page can be covered.
_POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS: Final[tuple[Header, ...]] = (
    (b"content-type", b"text/html; charset=utf-8"),
    (b"content-security-policy", _POLICY.encode()),
    NO_STORE,
)

# With the policy `no-referrer`, a browser would send the origin `null` with the forms of a page. No other site gets
# the address of a page.
_PAGE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="same-origin">
{more}<title>{title}</title>
<style>{style}</style>
</head>
<body>
<header><a href="/">{icon}Moorage</a>{aside}</header>
<main{narrow}>
{content}
</main>
</body>
</html>
"""


def page(
    title: str,
    content: Markup,
    *,
    status: int = 200,
    narrow: bool = False,
    aside: Markup = NOTHING,
    more: Markup = NOTHING,
    headers: Iterable[Header] = (),
) -> Answer:
    """A complete page. `aside` is at the end of its header, `more` in its head."""
    text = markup(
        _PAGE,
        title=title,
        style=_STYLE,
        icon=_ICON,
        content=content,
        aside=aside,
        more=more,
        narrow=Markup(' class="narrow"') if narrow else NOTHING,
    )
    return Answer(status, text.encode(), (*_HEADERS, *headers))


def redirect(path: str, headers: Iterable[Header] = ()) -> Answer:
    """Continue at another address with GET."""
    return Answer.empty(303, ((b"location", path.encode()), NO_STORE, *headers))
