"""Validation of paths: every storage key is below its root."""

from __future__ import annotations

import re
from urllib.parse import unquote

from moorage.core.errors import InvalidInput

_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f\\]")
_NOT_NAMES = frozenset(("", ".", ".."))
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


def confine(root: str, path: str) -> str:
    """Return the part of path below root, which ends with a slash. Raises InvalidInput if path is outside root.

    A log, manifest or descriptor can name any file, and the server would then read, sign or delete it
    with its own permissions. So the path is decoded once, and the result may not contain ".." or empty parts.
    """
    if not root.endswith("/"):
        raise ValueError(f"the root {root!r} must end with a slash")
    decoded = unquote(path)
    if decoded.startswith("/") or _SCHEME.match(decoded):
        absolute, base = _without_file_scheme(decoded), _without_file_scheme(root)
        if not absolute.startswith(base):
            raise InvalidInput(f"the path {path!r} is outside {root!r}", field="path")
        decoded = absolute[len(base) :]
    return require_key(decoded)


def _without_file_scheme(absolute: str) -> str:
    """`/x`, `file:///x`, and `file:/x` as Hadoop writes it, are the same path."""
    if absolute.startswith("/"):
        return absolute
    return re.sub(r"^file:/+", "/", absolute)


def require_key(key: str, field: str = "path") -> str:
    """Return a decoded relative path unchanged if all its parts are names. Raises InvalidInput for "." and ".."."""
    if not key or _FORBIDDEN.search(key):
        raise InvalidInput(f"the path {key!r} is empty, or contains a backslash or a control character", field=field)
    if not _NOT_NAMES.isdisjoint(key.split("/")):
        raise InvalidInput(f"the path {key!r} has a part that is '.', '..' or empty", field=field)
    return key
