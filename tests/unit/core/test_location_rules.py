"""Which locations a user may bring, and which ones the catalog assigns."""

from __future__ import annotations

import pytest

from moorage.core.errors import Damaged, InvalidInput
from moorage.core.ids import SecurableId
from moorage.core.locations import (
    Roots,
    assigned_location,
    assigned_location_around,
    external_location,
    is_assigned,
    locate_in,
    parse_location,
    registered_location,
    require_location,
)
from moorage.core.securables import Doc, Kind, Securable

ROOTS = Roots("file:///data/managed/", ("file:///old/managed/",))
ID = SecurableId("01939c1e-5a6f-7cc1-9d3e-8f5a2b7c4d76")


def thing(kind: Kind, location: str | None = None) -> Securable:
    return Securable(
        id=ID,
        kind=kind,
        parent=SecurableId("p"),
        name="t",
        owner="ann",
        revision=1,
        created_at_ms=0,
        created_by="ann",
        updated_at_ms=0,
        updated_by="ann",
        doc=Doc(location=location),
    )


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("/lake/t", "file:///lake/t/"),
        ("file:/lake/t/", "file:///lake/t/"),
        ("s3a://lake/t", "s3://lake/t/"),
        ("s3://lake/a%20b", "s3://lake/a%20b/"),
    ],
)
def test_spellings_of_one_folder_are_one_location(given: str, found: str) -> None:
    assert parse_location(given, field="location") == found
    assert external_location(ROOTS, given, field="location") == found


@pytest.mark.parametrize(
    "given",
    ["", "lake/t", "file://host/x", "s3://", "/lake/../x", "/lake/%2e%2e/x", "/lake/a%2fb", "/a\nb", "/a?b", "/a#b"],
)
def test_text_that_is_no_folder_is_refused_with_its_field(given: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        parse_location(given, field="storage_location")
    assert refusal.value.field == "storage_location"


@pytest.mark.parametrize(
    "given",
    [
        "/data/managed/tables/x",
        "/data/managed",
        "/data",
        "/",
        "/old/managed/tables/x",
        "/old",
        "s3://lake",
        "s3://lake/root/__unitystorage/catalogs/x",
    ],
)
def test_the_catalogs_own_storage_and_whole_buckets_are_no_external_locations(given: str) -> None:
    with pytest.raises(InvalidInput):
        external_location(ROOTS, given)


def test_files_of_a_dropped_table_can_be_registered_again_but_not_all_of_the_storage() -> None:
    assert registered_location(ROOTS, "/data/managed/tables/x") == "file:///data/managed/tables/x/"
    for given in ("/data/managed", "/data", "/old/managed"):
        with pytest.raises(InvalidInput, match="contains the catalog's own storage"):
            registered_location(ROOTS, given)


def test_a_sibling_with_the_same_beginning_is_another_folder() -> None:
    assert external_location(ROOTS, "/data/managed2") == "file:///data/managed2/"


def test_the_nearest_ancestor_with_a_root_decides_where_a_managed_object_is_stored() -> None:
    catalog, schema = thing(Kind.CATALOG, "s3://lake/c/"), thing(Kind.NAMESPACE, "s3://lake/s/")
    plain = thing(Kind.NAMESPACE)
    assert assigned_location(ROOTS, (plain,), "tables", ID) == f"file:///data/managed/tables/{ID}/"
    assert assigned_location(ROOTS, (catalog, plain), "tables", ID) == f"s3://lake/c/tables/{ID}/"
    assert assigned_location(ROOTS, (catalog, schema), "volumes", ID) == f"s3://lake/s/volumes/{ID}/"


def test_an_assigned_location_is_found_around_a_path() -> None:
    own = assigned_location(ROOTS, (), "tables", ID)
    for path in (own, own.rstrip("/"), f"{own}data/a.parquet"):
        assert assigned_location_around(ROOTS, (), "tables", path) == own
    assert assigned_location_around(ROOTS, (), "tables", "file:///elsewhere/x") is None


def test_only_the_object_itself_has_files_in_its_assigned_location() -> None:
    assert is_assigned(ROOTS, assigned_location(ROOTS, (), "tables", ID), ID)
    assert is_assigned(ROOTS, f"s3://lake/__unitystorage/catalogs/c/tables/{ID}/", ID)
    assert not is_assigned(ROOTS, f"s3://lake/mine/{ID}/", ID)
    assert not is_assigned(ROOTS, "file:///data/managed/tables/other/", ID)


def test_a_file_is_located_literally_in_the_first_location_that_contains_it() -> None:
    locations = ("file:///a/t1/", "file:///a/t10/")
    assert locate_in(locations, "file:/a/t10/data/x%20y.parquet") == ("file:///a/t10/", "data/x%20y.parquet")
    for path in ("file:///a/t2/x", "file:///a/t1x", "s3://a/t1/x", "/a/t1/../t2/x"):
        with pytest.raises(InvalidInput):
            locate_in(locations, path)


def test_a_table_without_a_location_is_damaged() -> None:
    assert require_location(thing(Kind.TABLE, "file:///x/")) == "file:///x/"
    with pytest.raises(Damaged):
        require_location(thing(Kind.TABLE))
