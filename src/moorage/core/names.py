"""Names of objects: case-preserving, compared case-insensitively, validated here and nowhere else."""

from __future__ import annotations

import re
import unicodedata

from moorage.core.errors import InvalidInput

MAX_NAME_LENGTH = 255
MAX_NAMESPACE_DEPTH = 32

# Control characters (Cc) and lone surrogates (Cs): the former break logs and headers, the latter
# cannot be encoded as UTF-8 and would cause a 500 from the database driver.
_FORBIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_NOT_ALLOWED_IN_UNITY = re.compile(r"[ ./]")


def name_key(name: str) -> str:
    """The normalized form by which names are compared and unique.

    It is never computed by a database's lower(): the result must not depend on the store or its locale.
    """
    if name.isascii():
        return name.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def require_name(name: str, field: str = "name") -> str:
    """Return the name unchanged if it is valid, or raise InvalidInput with the field."""
    if not name:
        raise InvalidInput(f"{field} is empty", field=field)
    if len(name) > MAX_NAME_LENGTH:
        raise InvalidInput(f"{field} has {len(name)} characters; at most {MAX_NAME_LENGTH} are allowed", field=field)
    if _FORBIDDEN.search(name):
        raise InvalidInput(f"{field} contains a control character", field=field)
    return name


def require_path(parts: tuple[str, ...], field: str = "namespace") -> tuple[str, ...]:
    """Return the path of names, outermost first, if every name is valid."""
    if not parts:
        raise InvalidInput(f"{field} is empty", field=field)
    if len(parts) > MAX_NAMESPACE_DEPTH:
        raise InvalidInput(f"{field} has {len(parts)} levels; at most {MAX_NAMESPACE_DEPTH} are allowed", field=field)
    for part in parts:
        require_name(part, field)
    return parts


def is_addressable_in_unity(name: str) -> bool:
    """Whether Unity and Sharing can address the name. They join names with dots inside URL paths."""
    return name.isidentifier() or _NOT_ALLOWED_IN_UNITY.search(name) is None
