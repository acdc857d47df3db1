"""Names: case-preserving, compared without case, checked once and here."""

from __future__ import annotations

import re
import unicodedata

from moorage.core.errors import InvalidInput

LONGEST_NAME = 255
DEEPEST_NAMESPACE = 32

# Control characters (Cc) and lone surrogates (Cs): the first break logs and headers, the second
# cannot be written as UTF-8 and would surface as a 500 from the database driver.
_FORBIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_UNSPEAKABLE_IN_UNITY = re.compile(r"[ ./]")


def name_key(name: str) -> str:
    """The form under which names are compared and unique.

    Made here and never by a database's lower(): two stores, two locales, one answer.
    """
    if name.isascii():
        return name.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def require_name(name: str, field: str = "name") -> str:
    """The name as it will be kept, or InvalidInput naming the field."""
    if not name:
        raise InvalidInput(f"{field} is empty", field=field)
    if len(name) > LONGEST_NAME:
        raise InvalidInput(f"{field} has {len(name)} characters; at most {LONGEST_NAME} are allowed", field=field)
    if _FORBIDDEN.search(name):
        raise InvalidInput(f"{field} contains a control character", field=field)
    return name


def require_path(parts: tuple[str, ...], field: str = "namespace") -> tuple[str, ...]:
    """A checked path of names, outermost first."""
    if not parts:
        raise InvalidInput(f"{field} is empty", field=field)
    if len(parts) > DEEPEST_NAMESPACE:
        raise InvalidInput(f"{field} has {len(parts)} levels; at most {DEEPEST_NAMESPACE} are allowed", field=field)
    for part in parts:
        require_name(part, field)
    return parts


def is_speakable_in_unity(name: str) -> bool:
    """Unity and Sharing write names joined by dots inside paths, so these cannot pass there."""
    return name.isidentifier() or _UNSPEAKABLE_IN_UNITY.search(name) is None
