"""The error page."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from moorage.api.web.markup import NOTHING, Markup, markup, page
from moorage.core.errors import MoorageError
from moorage.http import Answer, Route, Wire

_ERROR: Final = """<div class="card">
<h1>{title}</h1>
<p>{message}</p>
<p><a class="button" href="{path}">{action}</a></p>
<p class="soft">Request {request_id}</p>
</div>"""
_TO_LOGIN: Final = Markup('<meta http-equiv="refresh" content="0; url=/login">\n')


def error_page(wire: Wire, error: MoorageError, route: Route | None, request_id: str) -> Answer:
    """An error for people. A page that needs a session leads to the login."""
    is_login = wire.status == HTTPStatus.UNAUTHORIZED
    needs_session = is_login and route is not None and route.verb == "GET" and not route.public
    text = error.message[:1].upper() + error.message[1:]
    content = markup(
        _ERROR,
        title="Log in" if is_login else HTTPStatus(wire.status).phrase,
        message=f"{text}.",
        path="/login" if is_login else "/",
        action="Log in" if is_login else "Back to the start",
        request_id=request_id,
    )
    return page("Moorage", content, status=wire.status, narrow=True, more=_TO_LOGIN if needs_session else NOTHING)
