"""Locations: the storage paths that objects hold. No two of them overlap.

Users bring some locations (external tables, registered files), and the catalog assigns the others (managed tables). The
rules for both are here. They depend only on the text and on the catalog's own roots, not on storage.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final
from urllib.parse import unquote

import msgspec

from moorage.core.errors import Damaged, InvalidInput
from moorage.core.ids import SecurableId
from moorage.core.securables import Securable

CATALOG_FOLDER: Final = "__unitystorage"
"""The folder below a storage root that is reserved for the catalog. Unity's clients expect this name."""

_ABSOLUTE: Final = re.compile(r"/|file:/(?!/)|file:///|(?!file:)[a-z][a-z0-9+.-]*://[^/]", re.IGNORECASE)
_FORBIDDEN: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\\?#]")

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


# --- the catalog's own storage -----------------------------------------------------------------


class Roots(msgspec.Struct, frozen=True):
    """The locations below which the catalog stores what it manages."""

    managed: str
    """Used unless a catalog or namespace has a root of its own."""
    older: tuple[str, ...] = ()
    """Managed roots of earlier settings, and of a data folder that was moved."""

    def are_inside(self, location: str) -> bool:
        """Whether the location is one of the roots or contains one."""
        return any(root.startswith(location) for root in (self.managed, *self.older))

    def contain(self, location: str) -> bool:
        """Whether the location is in the catalog's own storage."""
        return location.startswith((self.managed, *self.older)) or f"/{CATALOG_FOLDER}/" in location


@lru_cache(maxsize=16_384)
def parse_location(location: str, *, field: str) -> str:
    """A location from a request in the form in which locations are compared, or InvalidInput."""
    if not _ABSOLUTE.match(location) or _FORBIDDEN.search(location):
        raise InvalidInput(f"{field}: {location!r} is neither an absolute path nor a URL of a folder", field=field)
    try:
        found = normalize_location(location)
        # Some readers decode a path and some do not: a path that leaves its folder for either of them is refused.
        decoded = normalize_location(unquote(location))
    except InvalidInput as error:
        raise InvalidInput(f"{field}: {error.message}", field=field) from None
    if decoded.count("/") != found.count("/"):
        raise InvalidInput(f"{field}: {location!r} contains an escaped slash; write it as /", field=field)
    return found


def external_location(roots: Roots, location: str, *, field: str = "storage_location") -> str:
    """The location of files that a user brings: a folder outside the catalog's own storage."""
    found = parse_location(location, field=field)
    if not found.startswith("file:") and found.count("/") < 4:
        raise InvalidInput(f"{field}: {location!r} is a whole bucket; give a folder in it", field=field)
    if roots.are_inside(found) or roots.contain(found):
        raise InvalidInput(
            f"{field}: {location!r} is inside or around the catalog's own storage; choose a folder outside of it",
            field=field,
        )
    return found


def registered_location(roots: Roots, location: str, *, field: str = "metadata-location") -> str:
    """`external_location`, but in the catalog's own storage too: a dropped table may have left its files there."""
    found = parse_location(location, field=field)
    if roots.are_inside(found):
        raise InvalidInput(f"{field}: {location!r} is or contains the catalog's own storage", field=field)
    return found


def assigned_location(roots: Roots, ancestors: Sequence[Securable], folder: str, id: SecurableId) -> str:
    """Where a managed object stores its files. It consists of ids, so a rename moves no file.

    The root is that of the nearest ancestor with a storage root; without one it is the server's own root.
    """
    return f"{_folder_of(roots, ancestors, folder)}{id}/"


def assigned_location_around(roots: Roots, ancestors: Sequence[Securable], folder: str, path: str) -> str | None:
    """The assigned location that contains a path, whether or not an object has it; None if there is none."""
    own = _folder_of(roots, ancestors, folder)
    location = f"{own}{path.removeprefix(own).partition('/')[0]}/"
    return location if f"{path}/".startswith(location) else None


def _folder_of(roots: Roots, ancestors: Sequence[Securable], folder: str) -> str:
    root = next((each.doc.location for each in reversed(ancestors) if each.doc.location), roots.managed)
    return f"{root}{folder}/"


def is_assigned(roots: Roots, location: str, id: SecurableId) -> bool:
    """Whether the catalog assigned the location to this very object, so that no other object has files in it."""
    return location.endswith(f"/{id}/") and roots.contain(location)


def locate_in(locations: Iterable[str], path: str) -> tuple[str, str]:
    """The location that contains a file, and the path from there; InvalidInput if none of them does.

    The path is absolute, in any spelling. Escapes in it are not decoded.
    """
    folder, _, name = path.rpartition("/")
    found = parse_location(folder, field="path")
    for root in locations:
        if found.startswith(root):
            return root, found[len(root) :] + name
    raise InvalidInput(f"{path!r} is outside of the table", field="path")


def require_location(table: Securable) -> str:
    """Where the files of a table are."""
    if table.doc.location is None:
        raise Damaged(f"table '{table.name}' has no location", table=table.id)
    return table.doc.location
