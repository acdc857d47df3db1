"""Checks whether a path in a log is inside its table.

The catalog vends credentials, signs URLs and deletes files based on paths in logs. A path that leaves the table
would apply these operations to files that do not belong to the table.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, TypeAlias
from urllib.parse import unquote

from moorage.core.locations import normalize_location

Inside: TypeAlias = Callable[[str], bool]

LOG_FOLDER: Final = "_delta_log"
ALIASES: Final = {"s3a": "s3", "s3n": "s3", "abfs": "abfss", "wasb": "wasbs"}
"""Hadoop's alternative schemes for one store. A path means the same file under each of them."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_ORDINARY = re.compile(rf"(?!(?i:{LOG_FOLDER})(?:/|$))[\w=-][\w=.-]*(?:/[\w=-][\w=.-]*)*", re.ASCII)
"""The form that writers use in practice. It skips the slower check, because a commit may have ten thousand paths."""
_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f\\]")


def path_check_for(location: str) -> Inside:
    """A check for paths of the table at this location, in the form in which logs write them."""
    root = _canonical(normalize_location(location))

    def inside(path: str) -> bool:
        if _ORDINARY.fullmatch(path):
            return True
        # Decode once, as readers do. Anything still encoded afterwards is part of a name.
        decoded = unquote(path)
        if _FORBIDDEN.search(decoded):
            return False
        if decoded.startswith("/") or _SCHEME.match(decoded):
            absolute = _canonical(decoded)
            if not absolute.startswith(root):
                return False
            decoded = absolute[len(root) :]
        parts = decoded.split("/")
        # Data files are never in the log folder. A remove action that named a commit would cause its later deletion.
        # Some file systems ignore case.
        return parts[0].lower() != LOG_FOLDER and not any(part in ("", ".", "..") for part in parts)

    return inside


def relative_paths(location: str) -> Callable[[str], str]:
    """The decoded path below the location, of each path that is inside the table, in whatever form the log has it."""
    root = _canonical(normalize_location(location))

    def relative(path: str) -> str:
        decoded = unquote(path)
        if decoded.startswith("/") or _SCHEME.match(decoded):
            return _canonical(decoded).removeprefix(root).removeprefix(unquote(root))
        return decoded

    return relative


def _canonical(absolute: str) -> str:
    """A canonical form: `file:/x`, `file:///x` and `/x` are one path, as are `s3a://b/x` and `s3://b/x`."""
    scheme, _, rest = absolute.partition(":") if not absolute.startswith("/") else ("file", ":", absolute)
    scheme = ALIASES.get(scheme.lower(), scheme.lower())
    return f"file:///{rest.lstrip('/')}" if scheme == "file" else f"{scheme}:{rest}"
