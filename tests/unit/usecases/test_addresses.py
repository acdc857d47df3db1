"""Addresses: a path of names, and an error that names the first one that is missing."""

from __future__ import annotations

import pytest

from moorage.core.errors import (
    CatalogNotFound,
    InvalidInput,
    NamespaceNotFound,
    SecurableNotFound,
    TableNotFound,
    ViewNotFound,
)
from moorage.core.ids import SecurableId
from moorage.core.securables import Doc, Kind, Securable, Shelf
from moorage.usecases.catalog import addresses
from moorage.usecases.catalog.addresses import Address, missing_step


def thing(kind: Kind, name: str) -> Securable:
    return Securable(
        id=SecurableId(name),
        kind=kind,
        parent=SecurableId("p"),
        name=name,
        owner="ann",
        revision=1,
        created_at_ms=0,
        created_by="ann",
        updated_at_ms=0,
        updated_by="ann",
        doc=Doc(),
    )


C, N, M = thing(Kind.CATALOG, "c"), thing(Kind.NAMESPACE, "n"), thing(Kind.NAMESPACE, "m")
T, V = thing(Kind.TABLE, "t"), thing(Kind.VIEW, "t")


def test_an_address_has_a_parent_and_a_shelf() -> None:
    table = Address(Kind.TABLE, ("C", "n", "m", "T"))
    assert table.parent == Address(Kind.NAMESPACE, ("C", "n", "m"))
    assert table.parent.parent == Address(Kind.NAMESPACE, ("C", "n"))
    assert table.parent.parent.parent == Address(Kind.CATALOG, ("C",))
    assert table.parent.parent.parent.parent is None
    assert (table.shelf, table.key, str(table)) == (Shelf.RELATION, "t", "C.n.m.T")
    assert Address(Kind.VIEW, ("c", "n", "v")).shelf is Shelf.RELATION


@pytest.mark.parametrize(
    ("address", "chain", "error", "name"),
    [
        (Address(Kind.CATALOG, ("c",)), (), CatalogNotFound, "c"),
        (Address(Kind.NAMESPACE, ("c", "n")), (), CatalogNotFound, "c"),
        (Address(Kind.NAMESPACE, ("c", "n")), (C,), NamespaceNotFound, "c.n"),
        (Address(Kind.NAMESPACE, ("c", "n", "m")), (C,), NamespaceNotFound, "c.n"),
        (Address(Kind.NAMESPACE, ("c", "n", "m")), (C, N), NamespaceNotFound, "c.n.m"),
        (Address(Kind.TABLE, ("c", "n", "t")), (C,), NamespaceNotFound, "c.n"),
        (Address(Kind.TABLE, ("c", "n", "t")), (C, N), TableNotFound, "c.n.t"),
        (Address(Kind.VIEW, ("c", "n", "t")), (C, N), ViewNotFound, "c.n.t"),
        (Address(Kind.VOLUME, ("c", "n", "t")), (C, N), SecurableNotFound, "c.n.t"),
        (Address(Kind.TABLE, ("c", "n", "t")), (C, N, V), TableNotFound, "c.n.t"),
        (Address(Kind.VIEW, ("c", "n", "t")), (C, N, T), ViewNotFound, "c.n.t"),
    ],
)
def test_the_error_names_the_first_missing_object(
    address: Address, chain: tuple[Securable, ...], error: type[Exception], name: str
) -> None:
    missing = missing_step(address, chain)
    assert (type(missing), missing.details["name"]) == (error, name)


def test_an_invalid_name_is_refused_with_its_field() -> None:
    with pytest.raises(InvalidInput) as refusal:
        addresses.namespace("c", "n", "", field="path")
    assert refusal.value.field == "path"
    with pytest.raises(InvalidInput) as refusal:
        addresses.namespace("c\n", "n", field="path")
    assert refusal.value.field == "catalog"
    with pytest.raises(InvalidInput) as refusal:
        addresses.table(addresses.namespace("c", "n"), "t" * 256)
    assert refusal.value.field == "table"
