"""The error for an object that does not exist. A caller that may not learn of an object gets the same error."""

from __future__ import annotations

from collections.abc import Sequence

from moorage.core.errors import (
    CatalogNotFound,
    NamespaceNotFound,
    NotFound,
    SecurableNotFound,
    TableNotFound,
    ViewNotFound,
)
from moorage.core.securables import Kind

_NOT_FOUND: dict[Kind, type[NotFound]] = {
    Kind.CATALOG: CatalogNotFound,
    Kind.NAMESPACE: NamespaceNotFound,
    Kind.TABLE: TableNotFound,
    Kind.VIEW: ViewNotFound,
}


def not_found_type(kind: Kind | None) -> type[NotFound]:
    """The type of error for an object of this kind that does not exist."""
    return SecurableNotFound if kind is None else _NOT_FOUND.get(kind, SecurableNotFound)


def absent(kind: Kind, path: Sequence[str]) -> NotFound:
    """The error for an object that has no name, or not this one."""
    name = ".".join(path)
    return not_found_type(kind)(f"{kind} '{name}' does not exist", name=name, kind=str(kind))


def absent_id(kind: Kind | None, id: str) -> NotFound:
    """The error for an id that no object has."""
    return not_found_type(kind)(f"no {kind or 'object'} has the id '{id}'", id=id)
