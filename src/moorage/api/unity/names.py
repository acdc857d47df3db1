"""Names as Unity writes them: joined by dots, so that not every name of the catalog can be said here."""

from __future__ import annotations

from functools import lru_cache

from moorage.core.errors import InvalidInput
from moorage.core.names import is_addressable_in_unity, require_name
from moorage.core.securables import Kind
from moorage.usecases.catalog.addresses import Address, missing_kind

_FIELDS = ("catalog_name", "schema_name", "model_name")
_FORM = {1: "catalog", 2: "catalog.schema", 3: "catalog.schema.name"}


def _levels(kind: Kind) -> int:
    return {Kind.CATALOG: 1, Kind.NAMESPACE: 2}.get(kind, 3)


@lru_cache(maxsize=16_384)
def address_of(kind: Kind, full_name: str, *, field: str = "full_name") -> Address:
    """Where a dotted name leads. A catalog's is not split: with a dot in it, Unity knows of none."""
    levels = _levels(kind)
    parts = tuple(full_name.split(".")) if levels > 1 else (full_name,)
    if len(parts) != levels or not all(parts):
        raise InvalidInput(f"{field}: {full_name!r} is not of the form {_FORM[levels]}", field=field)
    return _said(Address(kind, parts))


def address_in(kind: Kind, *names: str) -> Address:
    """An existing object named part by part, as requests do."""
    for name, field in zip(names, _FIELDS, strict=False):
        require_name(name, field)
    return _said(Address(kind, names))


def new_address(kind: Kind, *names: str) -> Address:
    """Where a new object is to stand: below parents that exist, under a name that Unity can say."""
    if len(names) > 1:
        address_in(Kind.CATALOG if len(names) == 2 else Kind.NAMESPACE, *names[:-1])
    return Address(kind, (*names[:-1], speakable(names[-1])))


def speakable(name: str, field: str = "name") -> str:
    """A new name, or InvalidInput if Unity's clients could never ask for it."""
    if not is_addressable_in_unity(require_name(name, field)):
        raise InvalidInput(f"{field}: {name!r} has a dot, a space or a slash; Unity's names have none", field=field)
    return name


def _said(address: Address) -> Address:
    """What Unity cannot say it does not see: the answer is that of a name that does not exist."""
    for depth, name in enumerate(address.path, 1):
        if not is_addressable_in_unity(require_name(name, "name")):
            kind = {1: Kind.CATALOG, 2: Kind.NAMESPACE}.get(depth, address.kind)
            full_name = ".".join(address.path[:depth])
            raise missing_kind(kind)(f"{kind} '{full_name}' does not exist", name=full_name, kind=str(kind))
    return address
