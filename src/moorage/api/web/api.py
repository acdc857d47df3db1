"""The pages at `/`. Their session is a cookie, which no other API accepts."""

from __future__ import annotations

from moorage.api.web.cookies import SESSION, session_cookie
from moorage.api.web.pages import error_page
from moorage.http import Api

web = Api(
    "web",
    prefix="",
    file="web.yaml",
    title="Moorage pages",
    description=(
        "Pages for browsers. Programs use the other APIs: the session of a browser is accepted by these paths only. "
        "Over HTTPS the cookie is named `__Host-moorage`. An error is a page if the client accepts HTML."
    ),
    tags={"pages": "Log in, see the addresses for clients, and manage personal tokens."},
    defaults={"stage": "public_preview", "since": "2.1.0-moorage.1"},
    credential=session_cookie,
    error_page=error_page,
    cookie=SESSION,
)
