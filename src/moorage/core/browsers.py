"""What keeps the pages for browsers safe: form tokens, own origins, local paths and login attempts. Pure."""

from __future__ import annotations

import hashlib
import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final
from urllib.parse import urlencode, urlsplit

import msgspec

HOME: Final = "/"
_MAX_PATH: Final = 2000


def form_token(secret: bytes, session: str) -> str:
    """The token that every form of a session carries. Another site can send a form, but does not know its token."""
    key = hmac.digest(secret, b"moorage form tokens", hashlib.sha256)
    return hmac.digest(key, session.encode(), hashlib.sha256).hex()


def is_form_token(secret: bytes, session: str, given: str) -> bool:
    """Whether the form belongs to the session, in a time that does not depend on where the tokens differ."""
    return hmac.compare_digest(form_token(secret, session).encode(), given.encode())


def is_own_form(site: str | None, origin: str | None, *, host: str | None, public_url: str) -> bool:
    """Whether a browser sent a form from a page of this server.

    `site` is its statement about that (`Sec-Fetch-Site`). Browsers that make none send the `origin` of the page.
    A request with neither is refused: it is not the form of a page, or its sender wants to hide the page.
    """
    if site is not None:
        return site == "same-origin"
    page = _origin(origin or "")
    return page is not None and (page == _origin(public_url) or page[1] == (host or "").lower())


def _origin(url: str) -> tuple[str, str] | None:
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    return (parts.scheme, parts.netloc.lower()) if parts.scheme in ("http", "https") and parts.netloc else None


def local_path(text: str | None) -> str:
    """The path of a page of this server to go to after a login, or `/` if the text is anything else.

    Browsers treat a backslash like a slash and ignore tabs and line ends, so `/\\evil.example` is another site.
    """
    is_local = (
        text is not None
        and len(text) <= _MAX_PATH
        and text.startswith("/")
        and not text.startswith("//")
        and text.isascii()
        and text.isprintable()
        and "\\" not in text
    )
    return text if is_local and text is not None else HOME


# --- logins through an identity provider ----------------------------------------------------------

ATTEMPT_MS: Final = 10 * 60 * 1000
"""How long a person may take to log in at the identity provider."""


class LoginAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """A login that was begun. The browser keeps it until it returns from the identity provider."""

    issuer: str
    state: str
    """Binds the answer of the provider to this browser."""
    nonce: str
    """Binds the ID token to this login."""
    verifier: str
    """Proves to the provider that its code is redeemed by the server that asked for it (PKCE)."""
    next: str
    expires_at_ms: int

    def __repr__(self) -> str:
        """Omits the secrets, because this text may be logged."""
        return f"LoginAttempt({self.issuer!r})"


def seal_attempt(secret: bytes, attempt: LoginAttempt) -> str:
    """The attempt as the value of a cookie, signed."""
    text = urlsafe_b64encode(msgspec.json.encode(attempt)).decode().rstrip("=")
    return f"{text}.{_attempt_signature(secret, text)}"


def open_attempt(secret: bytes, sealed: str, *, state: str, now_ms: int) -> LoginAttempt | None:
    """The attempt of a cookie, or None if it was not sealed with this secret, has another state, or has expired."""
    text, _, signature = sealed.partition(".")
    if not hmac.compare_digest(_attempt_signature(secret, text).encode(), signature.encode()):
        return None
    attempt = msgspec.json.decode(urlsafe_b64decode(text + "=" * (-len(text) % 4)), type=LoginAttempt)
    is_its_own = hmac.compare_digest(attempt.state.encode(), state.encode())
    return attempt if is_its_own and now_ms < attempt.expires_at_ms else None


def _attempt_signature(secret: bytes, text: str) -> str:
    key = hmac.digest(secret, b"moorage login attempts", hashlib.sha256)
    return hmac.digest(key, text.encode(), hashlib.sha256).hex()


def challenge_of(verifier: str) -> str:
    """The challenge of a verifier by the method S256 of RFC 7636."""
    return urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")


def authorization_url(endpoint: str, attempt: LoginAttempt, *, client_id: str, redirect_uri: str) -> str:
    """Where the browser logs in: the endpoint of the provider with the request of this attempt."""
    query = urlencode(
        {
            "response_type": "code",
            "client_id": client_id,
            "redirect_uri": redirect_uri,
            "scope": "openid email profile",
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": challenge_of(attempt.verifier),
            "code_challenge_method": "S256",
        }
    )
    return f"{endpoint}{'&' if '?' in endpoint else '?'}{query}"
