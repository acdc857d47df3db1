"""Whether a path in a log lies inside its table.

The catalog hands out credentials, signs and deletes by what logs say. A path that leaves the table would
make it do so with files that are not the table's.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, TypeAlias
from urllib.parse import unquote

from moorage.core.places import place

Inside: TypeAlias = Callable[[str], bool]

LOG_FOLDER: Final = "_delta_log"
ALIASES: Final = {"s3a": "s3", "s3n": "s3", "abfs": "abfss", "wasb": "wasbs"}
"""Hadoop's names for one store: a path is where it is, whichever of them was used to write it."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_ORDINARY = re.compile(rf"(?!(?i:{LOG_FOLDER})(?:/|$))[\w=-][\w=.-]*(?:/[\w=-][\w=.-]*)*", re.ASCII)
"""What writers make in fact; ten thousand such paths are not worth taking apart."""
_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f\\]")


def inside_of(location: str) -> Inside:
    """A check for the paths of the table at this location; it takes them as logs write them."""
    root = _one_spelling(place(location))

    def inside(path: str) -> bool:
        if _ORDINARY.fullmatch(path):
            return True
        # Once only: readers decode once, so what is still encoded afterwards is part of a name.
        decoded = unquote(path)
        if _FORBIDDEN.search(decoded):
            return False
        if decoded.startswith("/") or _SCHEME.match(decoded):
            absolute = _one_spelling(decoded)
            if not absolute.startswith(root):
                return False
            decoded = absolute[len(root) :]
        parts = decoded.split("/")
        # Nobody's data lies in the log; a remove that named a commit would have it deleted some day. Some disks do not
        # know capitals from small letters.
        return parts[0].lower() != LOG_FOLDER and not any(part in ("", ".", "..") for part in parts)

    return inside


def _one_spelling(absolute: str) -> str:
    """`file:/x`, `file:///x` and `/x` are one path, `s3a://b/x` and `s3://b/x` another."""
    scheme, _, rest = absolute.partition(":") if not absolute.startswith("/") else ("file", ":", absolute)
    scheme = ALIASES.get(scheme.lower(), scheme.lower())
    return f"file:///{rest.lstrip('/')}" if scheme == "file" else f"{scheme}:{rest}"
