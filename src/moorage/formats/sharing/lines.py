"""JSON lines that every client can split: one object per line, without the characters that end a line elsewhere."""

from __future__ import annotations

from typing import Any, Final

import msgspec

_encode = msgspec.json.Encoder().encode

# Python's client splits lines at these characters too. They can only be inside of JSON strings.
_LINE_ENDS: Final = (
    ("\x85".encode(), rb"\u0085"),
    ("\u2028".encode(), rb"\u2028"),
    ("\u2029".encode(), rb"\u2029"),
)


def to_json(value: Any) -> bytes:
    """Encode a value in one line."""
    text = _encode(value)
    if text.isascii():
        return text
    for raw, escaped in _LINE_ENDS:
        text = text.replace(raw, escaped)
    return text


def to_line(value: Any) -> bytes:
    return to_json(value) + b"\n"


class EndStreamAction(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The last line of a response, for clients that ask for it."""

    refresh_token: str | None = None
    next_page_token: str | None = None
    min_url_expiration_timestamp: int | None = None
    error_message: str | None = None
    http_status_error_code: int | None = None


def end_stream_line(action: EndStreamAction) -> bytes:
    return to_line({"endStreamAction": action})
