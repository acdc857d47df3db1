"""Who may do what: the rules of grants, inheritance, ownership and visibility, without a server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from msgspec.structs import replace

from moorage.core.callers import EVERYONE, LOCAL, SYSTEM, Caller
from moorage.core.ids import SecurableId
from moorage.core.permissions import GRANTABLE, allows, effective, knows_of, missing_grant
from moorage.core.privileges import Grant, Privilege, creation_of
from moorage.core.securables import Doc, Kind, Securable

ANN = Caller(id="ann", name="ann", principals=frozenset({"ann", "readers", EVERYONE}))
ADMIN = Caller(id="admin", name="admin", principals=frozenset({"admin", "admins"}), is_admin=True)

Given = Mapping[str, Sequence[str]]


def part(kind: Kind, owner: str = "boss", grants: Given | None = None) -> Securable:
    return Securable(
        id=SecurableId(str(kind)),
        kind=kind,
        parent=SecurableId("p"),
        name=f"the_{kind}",
        owner=owner,
        revision=1,
        created_at_ms=0,
        created_by="boss",
        updated_at_ms=0,
        updated_by="boss",
        doc=Doc(),
        grants={principal: tuple(held) for principal, held in (grants or {}).items()},
    )


def chain(
    *, catalog: Given | None = None, schema: Given | None = None, last: Given | None = None, kind: Kind = Kind.TABLE
) -> tuple[Securable, ...]:
    return part(Kind.CATALOG, grants=catalog), part(Kind.NAMESPACE, grants=schema), part(kind, grants=last)


USE = {"ann": ["USE CATALOG", "USE SCHEMA"]}


def test_what_no_rule_allows_is_denied() -> None:
    for kind in Kind:
        for privilege in Privilege:
            assert not allows(ANN, privilege, (part(Kind.CATALOG), part(Kind.NAMESPACE), part(kind)))


@pytest.mark.parametrize(
    ("privilege", "kind", "grant"),
    [
        (Privilege.READ, Kind.TABLE, "SELECT"),
        (Privilege.READ, Kind.VIEW, "SELECT"),
        (Privilege.MODIFY, Kind.TABLE, "MODIFY"),
        (Privilege.READ, Kind.VOLUME, "READ VOLUME"),
        (Privilege.MODIFY, Kind.VOLUME, "WRITE VOLUME"),
        (Privilege.READ, Kind.FUNCTION, "EXECUTE"),
        (Privilege.READ, Kind.MODEL, "EXECUTE"),
        (Privilege.MANAGE, Kind.TABLE, "MANAGE"),
        (Privilege.MANAGE, Kind.FUNCTION, "MANAGE"),
    ],
)
def test_a_privilege_needs_its_grant_and_use_of_the_ancestors(privilege: Privilege, kind: Kind, grant: str) -> None:
    assert allows(ANN, privilege, chain(catalog=USE, last={"ann": [grant]}, kind=kind))
    assert allows(ANN, privilege, chain(catalog=USE, schema={"ann": [grant]}, kind=kind)), "inherited from the schema"
    assert allows(ANN, privilege, chain(catalog={"ann": [*USE["ann"], grant]}, kind=kind)), "inherited from the catalog"
    assert allows(ANN, privilege, chain(catalog={EVERYONE: USE["ann"]}, last={"readers": [grant]}, kind=kind))
    assert not allows(ANN, privilege, chain(last={"ann": [grant]}, kind=kind)), "USE CATALOG is missing"
    assert not allows(ANN, privilege, chain(catalog={"ann": ["USE CATALOG"]}, last={"ann": [grant]}, kind=kind))
    assert not allows(ANN, privilege, chain(catalog=USE, last={"bob": [grant]}, kind=kind)), "granted to another"
    others = GRANTABLE[kind] - {grant, Grant.ALL_PRIVILEGES}
    assert not allows(ANN, privilege, chain(catalog=USE, last={"ann": list(others)}, kind=kind))


def test_all_privileges_is_everything_but_manage() -> None:
    found = chain(catalog={"ann": ["ALL PRIVILEGES"]})
    assert allows(ANN, Privilege.READ, found)
    assert allows(ANN, Privilege.MODIFY, found)
    assert allows(ANN, Privilege.CREATE_TABLE, found[:2])
    assert not allows(ANN, Privilege.MANAGE, found)


@pytest.mark.parametrize("kind", [Kind.CATALOG, Kind.NAMESPACE, Kind.TABLE, Kind.VOLUME, Kind.FUNCTION, Kind.MODEL])
def test_creation_needs_its_own_grant(kind: Kind) -> None:
    privilege = creation_of(kind)
    grant = {Privilege.CREATE_SCHEMA: "CREATE SCHEMA"}.get(privilege, f"CREATE {kind.upper()}")
    above = chain(catalog=USE, schema={"ann": [grant]})[:2]
    assert allows(ANN, privilege, above)
    assert not allows(ANN, privilege, chain(catalog={"ann": ["USE CATALOG"]}, schema={"ann": [grant]})[:2])
    assert not allows(ANN, Privilege.CREATE, above), "a kind without a grant is for owners"


def test_an_owner_may_do_everything_below_but_needs_use_above() -> None:
    catalog, schema, table = part(Kind.CATALOG), part(Kind.NAMESPACE, owner="readers"), part(Kind.TABLE)
    for privilege in Privilege:
        assert allows(ANN, privilege, (part(Kind.CATALOG, grants=USE), schema, table))
        assert not allows(ANN, privilege, (catalog, schema, table))
        assert allows(ANN, privilege, (part(Kind.CATALOG, owner="ann"), part(Kind.NAMESPACE), table))


def test_browse_needs_no_use_and_shows_everything_below() -> None:
    found = chain(catalog={"ann": ["BROWSE"]})
    assert all(allows(ANN, Privilege.BROWSE, found[:depth]) for depth in (1, 2, 3))
    assert not allows(ANN, Privilege.READ, found)


def test_an_object_is_seen_by_those_who_hold_a_grant_that_concerns_it() -> None:
    assert allows(ANN, Privilege.BROWSE, chain(catalog=USE, last={"ann": ["SELECT"]}))
    assert allows(ANN, Privilege.BROWSE, chain(catalog={"ann": [*USE["ann"], "SELECT"]}))
    assert not allows(ANN, Privilege.BROWSE, chain(catalog=USE)), "USE SCHEMA does not show the tables"
    assert not allows(ANN, Privilege.BROWSE, chain(catalog={"ann": [*USE["ann"], "READ VOLUME"]}))
    assert allows(ANN, Privilege.BROWSE, chain(catalog=USE)[:2]), "the schema itself is shown"
    assert allows(ANN, Privilege.BROWSE, ()), "everyone may list catalogs"


def test_an_object_is_hidden_from_those_who_hold_nothing_on_it_and_its_parent() -> None:
    assert not knows_of(ANN, chain())
    assert not knows_of(ANN, chain(catalog={"ann": ["USE CATALOG"]}))
    assert knows_of(ANN, chain(schema={"ann": ["USE SCHEMA"]})), "a privilege on the parent"
    assert knows_of(ANN, chain(last={"ann": ["SELECT"]}))
    assert knows_of(ANN, chain(catalog={"ann": ["SELECT"]})), "an inherited privilege"
    assert knows_of(ANN, (part(Kind.CATALOG), part(Kind.NAMESPACE, owner="ann"), part(Kind.TABLE)))
    assert not knows_of(ANN, (part(Kind.CATALOG),))
    assert knows_of(ANN, ())


def test_administrators_the_catalog_and_the_open_server_may_do_everything() -> None:
    for caller in (ADMIN, SYSTEM, LOCAL):
        assert all(allows(caller, privilege, found) for privilege in Privilege for found in ((), chain()))
        assert knows_of(caller, chain())


def test_grants_on_the_metastore_hold_everywhere() -> None:
    caller = Caller(id="ann", name="ann", principals=frozenset({"ann"}), grants=frozenset({"BROWSE", "READ FEED"}))
    assert allows(caller, Privilege.BROWSE, chain())
    assert allows(caller, Privilege.FOLLOW, ())
    assert not allows(caller, Privilege.WORK, ())
    worker = Caller(id="w", name="w", principals=frozenset({"w"}), grants=frozenset({"RUN JOBS"}))
    assert allows(worker, Privilege.WORK, ())
    assert not allows(worker, Privilege.FOLLOW, ())


def test_a_grant_on_an_external_location_holds_there_and_nowhere_else() -> None:
    readable = (part(Kind.EXTERNAL_LOCATION, grants={"ann": ["READ FILES"]}),)
    writable = (part(Kind.EXTERNAL_LOCATION, grants={"ann": ["WRITE FILES"]}),)
    other = (part(Kind.EXTERNAL_LOCATION),)
    assert allows(ANN, Privilege.READ_FILES, readable)
    assert not allows(ANN, Privilege.WRITE_FILES, readable)
    for privilege in (Privilege.MODIFY, Privilege.MANAGE, Privilege.CHOOSE_LOCATION, Privilege.STORE_MANAGED):
        assert not allows(ANN, privilege, writable)
    assert not allows(ANN, Privilege.READ_FILES, other)
    assert not allows(ANN, Privilege.READ_FILES, ())
    assert allows(replace(ANN, grants=frozenset({"READ FILES"})), Privilege.READ_FILES, other)


def test_a_token_for_reading_changes_nothing_even_for_an_administrator() -> None:
    caller = Caller(id="admin", name="admin", is_admin=True, is_read_only=True)
    allowed = {privilege for privilege in Privilege if allows(caller, privilege, chain())}
    assert allowed == {
        Privilege.BROWSE,
        Privilege.READ,
        Privilege.READ_TABLES,
        Privilege.READ_FILES,
        Privilege.FOLLOW,
        Privilege.INSPECT,
    }
    assert "scope" in missing_grant(caller, Privilege.MODIFY, chain())


def test_the_error_names_the_first_missing_grant() -> None:
    assert missing_grant(ANN, Privilege.READ, chain()) == "USE CATALOG on catalog 'the_catalog'"
    use_catalog = {"ann": ["USE CATALOG"]}
    assert missing_grant(ANN, Privilege.READ, chain(catalog=use_catalog)) == "USE SCHEMA on namespace 'the_namespace'"
    assert missing_grant(ANN, Privilege.READ, chain(catalog=USE)) == "SELECT on table 'the_table'"
    assert missing_grant(ANN, Privilege.CREATE_CATALOG, ()) == "CREATE CATALOG on the metastore"
    assert missing_grant(ANN, Privilege.CREATE, ()) == "to be the owner of the metastore"


def test_effective_grants_have_their_origin() -> None:
    metastore = part(Kind.METASTORE, grants={"admins": ["READ FEED"], "ann": ["BROWSE"]})
    found = (metastore, *chain(catalog=USE | {"bob": ["SELECT"]}, last={"bob": ["MODIFY"]}))
    held = [(each.principal, each.privilege, each.origin.kind) for each in effective(found)]
    assert held == [
        ("ann", "BROWSE", Kind.METASTORE),
        ("bob", "SELECT", Kind.CATALOG),
        ("bob", "MODIFY", Kind.TABLE),
    ]
