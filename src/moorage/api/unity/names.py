"""Names in the Unity API. They are joined by dots, so this API cannot address every name of the catalog."""

from __future__ import annotations

from functools import lru_cache

from moorage.core.absence import not_found_type
from moorage.core.errors import InvalidInput
from moorage.core.names import is_addressable_in_unity, require_name
from moorage.core.securables import Kind
from moorage.usecases.catalog.addresses import Address

_FIELDS = ("catalog_name", "schema_name", "model_name")
_FORM = {1: "catalog", 2: "catalog.schema", 3: "catalog.schema.name"}


def _levels(kind: Kind) -> int:
    return {Kind.CATALOG: 1, Kind.NAMESPACE: 2}.get(kind, 3)


@lru_cache(maxsize=16_384)
def address_of(kind: Kind, full_name: str, *, field: str = "full_name") -> Address:
    """The address of a dotted name. A catalog's name is not split: with a dot, no catalog is found."""
    levels = _levels(kind)
    parts = tuple(full_name.split(".")) if levels > 1 else (full_name,)
    if len(parts) != levels or not all(parts):
        raise InvalidInput(f"{field} {full_name!r} does not have the form {_FORM[levels]}", field=field)
    return _require_visible(Address(kind, parts))


def address_in(kind: Kind, *names: str) -> Address:
    """The address of an existing object, from the separate names in a request."""
    for name, field in zip(names, _FIELDS, strict=False):
        require_name(name, field)
    return _require_visible(Address(kind, names))


def new_address(kind: Kind, *names: str) -> Address:
    """The address of a new object. Unity must be able to address its name."""
    if len(names) > 1:
        address_in(Kind.CATALOG if len(names) == 2 else Kind.NAMESPACE, *names[:-1])
    return Address(kind, (*names[:-1], require_addressable(names[-1])))


def require_addressable(name: str, field: str = "name") -> str:
    """Return a new name, or raise InvalidInput if Unity's clients could not address it."""
    if not is_addressable_in_unity(require_name(name, field)):
        raise InvalidInput(
            f"{field} {name!r} contains a dot, a space or a slash, which Unity does not allow", field=field
        )
    return name


def require_new_name(name: str | None) -> str | None:
    """The new name in an update; None keeps the name."""
    return None if name is None else require_addressable(name, "new_name")


def _require_visible(address: Address) -> Address:
    """Treat an object whose name Unity cannot address as missing."""
    for depth, name in enumerate(address.path, 1):
        if not is_addressable_in_unity(require_name(name, "name")):
            kind = {1: Kind.CATALOG, 2: Kind.NAMESPACE}.get(depth, address.kind)
            full_name = ".".join(address.path[:depth])
            raise not_found_type(kind)(f"{kind} '{full_name}' does not exist", name=full_name, kind=str(kind))
    return address
