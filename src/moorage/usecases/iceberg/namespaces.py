"""Namespaces as Iceberg clients see them: comment and location are properties."""

from __future__ import annotations

from typing import Final

from msgspec import UNSET
from msgspec.structs import replace

from moorage.core.callers import Caller
from moorage.core.errors import InvalidInput
from moorage.core.securables import Doc
from moorage.usecases.catalog import objects
from moorage.usecases.catalog.addresses import Address
from moorage.usecases.parts import Part
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.settling.settle import settle

COMMENT: Final = "comment"
LOCATION: Final = "location"


def namespace_properties(doc: Doc) -> dict[str, str]:
    """The properties of a namespace, with its comment and location."""
    fields = {COMMENT: doc.comment, LOCATION: doc.location}
    return {**{name: value for name, value in fields.items() if value is not None}, **doc.properties}


async def update_properties(
    ports: Ports, errand: Errand, address: Address, *, removals: tuple[str, ...], updates: dict[str, str]
) -> tuple[str, ...]:
    """Set and remove properties of a namespace. Returns the names to remove that did not exist."""
    description = objects.Description(
        comment=updates.get(COMMENT, None if COMMENT in removals else UNSET),
        set_properties=updates,
        remove_properties=removals,
    )

    async def prepare(caller: Caller) -> Part:
        part = await objects.prepare_update(ports, caller, address, description)
        before = namespace_properties(part.before.doc) if part.before is not None else {}
        if part.before is not None and part.before.doc.location is not None:
            _require_same_location(before[LOCATION], removals, updates)
        missing = tuple(name for name in removals if name not in before)
        return replace(part, done=replace(part.done, missing=missing))

    return (await settle(ports, errand, prepare)).done.missing


def _require_same_location(location: str, removals: tuple[str, ...], updates: dict[str, str]) -> None:
    """New tables are created in this location, so the property must not state another one."""
    if LOCATION in removals or updates.get(LOCATION, location) != location:
        raise InvalidInput(f"the location of a namespace cannot change: its tables are in '{location}'", field=LOCATION)
