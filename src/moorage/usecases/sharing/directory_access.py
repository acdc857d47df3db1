"""Keys for the folder of a shared table."""

from __future__ import annotations

from moorage.core.errors import InvalidInput, MoorageError, Unsupported
from moorage.core.locations import normalize_location
from moorage.core.vended import Vended
from moorage.usecases.ports import Ports
from moorage.usecases.sharing.reading import full_name
from moorage.usecases.sharing.shared_tables import SharedTable
from moorage.usecases.sharing.table_heads import offers_directory


async def vend_folder(ports: Ports, shared: SharedTable, stated: str | None) -> tuple[str, Vended]:
    """A key that reads the folder of a table, or a folder below it, and that folder's location."""
    if not await offers_directory(ports, shared):
        raise Unsupported(f"table '{full_name(shared)}' does not offer directory access; query it for URLs instead")
    root = shared.table.doc.location or ""
    location = root if stated is None else _require_below(root, stated)
    store = await ports.stores.find(location)
    assert store is not None  # noqa: S101 - offers_directory has checked it
    return location, await store.vend([location], writes=False)


def _require_below(root: str, stated: str) -> str:
    try:
        location = normalize_location(stated)
    except MoorageError:
        location = ""
    if not location.startswith(root):
        raise InvalidInput(f"location {stated!r} is not in the folder of the table", field="location")
    return location
