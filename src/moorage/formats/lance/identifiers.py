"""Identifiers: a list of names in bodies, one string in addresses, joined by a delimiter that the client chooses."""

from __future__ import annotations

from collections.abc import Sequence

from moorage.core.errors import InvalidInput

DELIMITER = "$"


def parse_identifier(text: str, delimiter: str) -> tuple[str, ...]:
    """The names in a string; the delimiter alone is the root, which has none."""
    return () if text == delimiter else tuple(text.split(delimiter))


def to_text(names: Sequence[str], delimiter: str) -> str:
    return delimiter.join(names) or delimiter


def require_speakable(names: Sequence[str], delimiter: str, field: str = "id") -> tuple[str, ...]:
    """Names that no client could ever put into an address are refused where they are given."""
    for name in names:
        if delimiter in name:
            raise InvalidInput(f"the name {name!r} contains the delimiter {delimiter!r}", field=field)
    return tuple(names)


def agreed_identifier(in_path: tuple[str, ...], in_body: Sequence[str] | None) -> tuple[str, ...]:
    """The identifier of a request, whose body may repeat what its path says."""
    if in_body is not None and tuple(in_body) != in_path:
        raise InvalidInput(f"the path says {list(in_path)}, the body says {list(in_body)}", field="id")
    return in_path
