"""Cookies: how the browser keeps a session, and how it presents it."""

from __future__ import annotations

from typing import Final

from moorage.core.credentials import Credential, CredentialScheme
from moorage.http import Headers
from moorage.http.answers import Header

SESSION: Final = "moorage"
_HOST: Final = "__Host-"
"""Browsers accept a cookie with this prefix only from the host itself and over HTTPS."""


def cookie_name(name: str, public_url: str) -> str:
    """The name under which a browser keeps a cookie of this server."""
    return _HOST + name if public_url.startswith("https://") else name


def set_cookie(name: str, value: str, max_age_seconds: int) -> Header:
    """Store a cookie. Scripts cannot read it, and it is not sent with forms of other sites."""
    secure = "; Secure" if name.startswith(_HOST) else ""
    attributes = f"Path=/; Max-Age={max_age_seconds}; HttpOnly; SameSite=Lax{secure}"
    return b"set-cookie", f"{name}={value}; {attributes}".encode()


def delete_cookie(name: str) -> Header:
    return set_cookie(name, "", 0)


def find_cookie(headers: Headers, name: str) -> str | None:
    """The value of a cookie, or None. Of several, a browser sends the most specific one first."""
    for part in (headers.get("cookie") or "").split(";"):
        given, _, value = part.strip().partition("=")
        if given == name:
            return value
    return None


def session_of(headers: Headers) -> str:
    """The session of a browser as `name=value`; empty if it has none."""
    for name in (_HOST + SESSION, SESSION):
        if (value := find_cookie(headers, name)) is not None:
            return f"{name}={value}"
    return ""


def session_cookie(headers: Headers) -> Credential | None:
    """The credential of a browser."""
    session = session_of(headers)
    return Credential(CredentialScheme.COOKIE, session) if session else None
