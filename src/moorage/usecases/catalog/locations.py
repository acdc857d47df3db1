"""Where files live: places that users bring, and places that the catalog gives."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from urllib.parse import unquote

from moorage.core.errors import Damaged, InvalidInput
from moorage.core.ids import SecurableId
from moorage.core.locations import normalize_location
from moorage.core.securables import Securable
from moorage.usecases.ports import Ports

OURS = "__unitystorage"
"""The folder below a storage root that the catalog keeps for itself; Unity's clients know it by this name."""

_ABSOLUTE = re.compile(r"/|file:/(?!/)|file:///|(?!file:)[a-z][a-z0-9+.-]*://[^/]", re.IGNORECASE)
_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f-\x9f\\?#]")


def external_location(ports: Ports, location: str, *, field: str = "storage_location") -> str:
    """The place of files that a user brings: a folder of its own, and none of the catalog's."""
    found = parse_location(location, field=field)
    if not found.startswith("file:") and found.count("/") < 4:
        raise InvalidInput(f"{field}: {location!r} is a whole bucket; give a folder in it", field=field)
    if _holds_ours(ports, found) or _is_ours(ports, found):
        raise InvalidInput(f"{field}: {location!r} lies in or around the catalog's own storage", field=field)
    return found


def _holds_ours(ports: Ports, place: str) -> bool:
    return any(root.startswith(place) for root in (ports.managed_root, *ports.older_roots))


def _is_ours(ports: Ports, place: str) -> bool:
    return place.startswith((ports.managed_root, *ports.older_roots)) or f"/{OURS}/" in place


def is_assigned(ports: Ports, place: str, id: SecurableId) -> bool:
    """Whether the catalog gave a place to this very object, so that nobody else has files in it."""
    return place.endswith(f"/{id}/") and _is_ours(ports, place)


def registered_location(ports: Ports, location: str, *, field: str = "metadata-location") -> str:
    """Also one in our own storage, where a table was that has been dropped; but never all of our storage."""
    found = parse_location(location, field=field)
    if _holds_ours(ports, found):
        raise InvalidInput(f"{field}: {location!r} is or holds the catalog's own storage", field=field)
    return found


@lru_cache(maxsize=16_384)
def parse_location(location: str, *, field: str) -> str:
    """A location from outside in the form in which places are compared, or InvalidInput."""
    if not _ABSOLUTE.match(location) or _FORBIDDEN.search(location):
        raise InvalidInput(f"{field}: {location!r} is neither an absolute path nor a URL of a folder", field=field)
    try:
        found = normalize_location(location)
        # Some readers decode a path and some do not: what climbs for either of them is refused for both.
        decoded = normalize_location(unquote(location))
    except InvalidInput as error:
        raise InvalidInput(f"{field}: {error.message}", field=field) from None
    if decoded.count("/") != found.count("/"):
        raise InvalidInput(f"{field}: {location!r} hides a slash behind an escape", field=field)
    return found


def locate_in(places: Iterable[str], path: str) -> tuple[str, str]:
    """Which of these places a file lies in, and the way to it from there; InvalidInput if it lies in none of them.

    The path is absolute, in any spelling, and taken by its letters: nothing in it is decoded.
    """
    folder, _, name = path.rpartition("/")
    found = parse_location(folder, field="path")
    for root in places:
        if found.startswith(root):
            return root, found[len(root) :] + name
    raise InvalidInput(f"{path!r} lies outside of the table", field="path")


def assigned_location(ports: Ports, chain: tuple[Securable, ...], shelf: str, id: SecurableId) -> str:
    """Where a managed object keeps its files: made of ids, so that a rename moves nothing.

    The nearest ancestor with a storage root decides; without one it is the server's own.
    """
    return f"{_shelf_of(ports, chain, shelf)}{id}/"


def _shelf_of(ports: Ports, chain: tuple[Securable, ...], shelf: str) -> str:
    root = next((part.doc.location for part in reversed(chain) if part.doc.location), ports.managed_root)
    return f"{root}{shelf}/"


def assigned_location_around(ports: Ports, chain: tuple[Securable, ...], shelf: str, path: str) -> str | None:
    """The place of ours in which a path lies, whether or not anything has it; None if it lies in none."""
    ours = _shelf_of(ports, chain, shelf)
    place = f"{ours}{path.removeprefix(ours).partition('/')[0]}/"
    return place if f"{path}/".startswith(place) else None


def place_of(table: Securable) -> str:
    """Where the files of a table are."""
    if table.doc.location is None:
        raise Damaged(f"table '{table.name}' has no location", table=table.id)
    return table.doc.location


async def require_reachable(ports: Ports, place: str) -> None:
    """InvalidInput where this server may not go: it could never delete what is put there."""
    await ports.storage.is_gone(place, "reachable")
