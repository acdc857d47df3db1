"""The only way to a key: nothing reaches past its root."""

from __future__ import annotations

import re
from urllib.parse import unquote

from moorage.core.errors import InvalidInput

_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f\\]")
_CLIMBING = frozenset(("", ".", ".."))
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


def confine(root: str, path: str) -> str:
    """The part of path below root, which ends with a slash; InvalidInput if it lies anywhere else.

    A log, manifest or descriptor can name any file, and the server would then read, sign or delete it
    with its own rights. So a path is decoded once, and what is left may not climb.
    """
    if not root.endswith("/"):
        raise ValueError(f"a root ends with a slash: {root!r}")
    decoded = unquote(path)
    if decoded.startswith("/") or _SCHEME.match(decoded):
        absolute, base = _spelled(decoded), _spelled(root)
        if not absolute.startswith(base):
            raise InvalidInput(f"the path {path!r} lies outside of {root!r}", field="path")
        decoded = absolute[len(base) :]
    return require_key(decoded)


def _spelled(absolute: str) -> str:
    """`/x`, `file:/x` as Hadoop writes it, and `file:///x` are one path."""
    if absolute.startswith("/"):
        return absolute
    return re.sub(r"^file:/+", "/", absolute)


def require_key(key: str, field: str = "path") -> str:
    """A relative path that is decoded already: it has names only, and none that climbs."""
    if not key or _FORBIDDEN.search(key):
        raise InvalidInput(f"the path {key!r} is empty or has characters that paths may not have", field=field)
    if not _CLIMBING.isdisjoint(key.split("/")):
        raise InvalidInput(f"the path {key!r} climbs or has an empty part", field=field)
    return key
