"""Identifiers: a list of names in request bodies, one string in URLs, joined by a delimiter that the client chooses."""

from __future__ import annotations

from collections.abc import Sequence

from moorage.core.errors import InvalidInput

DELIMITER = "$"


def parse_identifier(text: str, delimiter: str) -> tuple[str, ...]:
    """The names in a string. The delimiter alone means the root, which has no names."""
    return () if text == delimiter else tuple(text.split(delimiter))


def to_text(names: Sequence[str], delimiter: str) -> str:
    return delimiter.join(names) or delimiter


def require_addressable(names: Sequence[str], delimiter: str, field: str = "id") -> tuple[str, ...]:
    """Refuse names that contain the delimiter: no client could address them in a URL."""
    for name in names:
        if delimiter in name:
            raise InvalidInput(f"the name {name!r} contains the delimiter {delimiter!r}", field=field)
    return tuple(names)


def agreed_identifier(in_path: tuple[str, ...], in_body: Sequence[str] | None) -> tuple[str, ...]:
    """The identifier of a request. The body may repeat the identifier of the path."""
    if in_body is not None and tuple(in_body) != in_path:
        raise InvalidInput(f"the path names {list(in_path)}, but the body names {list(in_body)}", field="id")
    return in_path
