"""Accepts a form only from a page of this server, and of the session that it was made for."""

from __future__ import annotations

from typing import Any

from moorage.api.web.cookies import session_of
from moorage.core.browsers import form_token, is_form_token, is_own_form
from moorage.core.errors import Forbidden
from moorage.http import Call
from moorage.usecases.ports import Ports


def form_token_of(call: Call[Any, Any], ports: Ports) -> str:
    """The token for the forms of a page."""
    return form_token(ports.page_secret, session_of(call.headers))


def require_own_page(call: Call[Any, Any], ports: Ports) -> None:
    """Refuse a form that a page of another site has sent."""
    site, origin = call.header("sec-fetch-site"), call.header("origin")
    if not is_own_form(site, origin, host=call.header("host"), public_url=ports.public_url):
        raise Forbidden("this form was not sent by a page of this server; open the page and try again")


def require_own_form(call: Call[Any, Any], ports: Ports, given: str) -> None:
    """Refuse a form of another site, of another session, or without its token."""
    require_own_page(call, ports)
    if not is_form_token(ports.page_secret, session_of(call.headers), given):
        raise Forbidden("this form belongs to another session; open the page again and repeat it")
