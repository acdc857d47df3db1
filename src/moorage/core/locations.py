"""Locations: the storage paths that objects hold. No two of them overlap."""

from __future__ import annotations

from moorage.core.errors import InvalidInput

# Hadoop has several scheme names per store: two spellings of one path are the same location.
_SAME_STORE = {"s3a": "s3", "s3n": "s3", "abfs": "abfss"}


def normalize_location(path: str) -> str:
    """The path in the form in which locations are compared: no dot segments, one slash at the end."""
    scheme, (_, sep, rest) = scheme_of(path), path.partition("://")
    if not sep:
        rest = path[5:] if path[:5].lower() == "file:" else path  # Hadoop writes file:/x
    parts = [part for part in rest.split("/") if part]
    if any(part in (".", "..") for part in parts):
        raise InvalidInput(f"the location {path!r} has a '.' or '..' segment; remove it", field="location")
    if not parts:
        raise InvalidInput(f"the location {path!r} names no folder; give a bucket or folder", field="location")
    return f"{scheme}://{'/' if scheme == 'file' else ''}{'/'.join(parts)}/"


def scheme_of(path: str) -> str:
    """The scheme of the path's store, with Hadoop's aliases resolved."""
    scheme, sep, _ = path.partition("://")
    return _SAME_STORE.get(scheme.lower(), scheme.lower()) if sep else "file"


def enclosing_locations(path: str) -> tuple[str, ...]:
    """The location itself and every location that contains it."""
    at, found = path.index("://") + 3, []
    while (at := path.find("/", at + 1)) > 0:
        found.append(path[: at + 1])
    return tuple(found)


def range_inside(path: str) -> tuple[str, str]:
    """The bounds (inclusive, exclusive) of all locations inside this one in sort order: '0' follows '/'."""
    return path, path[:-1] + "0"
