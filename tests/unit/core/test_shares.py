"""The names of shared objects, and their partition filters."""

from __future__ import annotations

import pytest

from moorage.core.errors import Forbidden, InvalidInput
from moorage.core.securables import Column, TableDoc
from moorage.core.shares import (
    PartitionValue,
    first_key_of,
    last_key_of,
    parse_shared_as,
    require_partitions,
    require_share_name,
    resolved,
)

TABLE = TableDoc(
    format="delta",
    columns=(Column(name="id", type_text="int"), Column(name="Day", type_text="date", partition_index=0)),
)


def test_a_shared_name_is_a_schema_and_a_table_or_a_whole_schema() -> None:
    assert parse_shared_as("sales.orders", "TABLE") == "sales.orders"
    assert parse_shared_as("sales", "SCHEMA") == "sales.*"


@pytest.mark.parametrize("text", ["", "orders", "a.b.c", ".b", "a.", "a b.c", "a/b.c", "a.b\x7f", "a." + "t" * 256])
def test_a_name_that_recipients_cannot_address_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        parse_shared_as(text, "TABLE")


@pytest.mark.parametrize("name", ["", "a b", "a/b", "a.b", "a\n", "a\x7f", "n" * 256])
def test_a_share_has_an_addressable_name(name: str) -> None:
    with pytest.raises(InvalidInput):
        require_share_name(name)


def test_the_keys_of_a_schema_are_contiguous() -> None:
    inside = ["sales.!", "sales.*", "sales.a", "sales.\U0010ffff"]
    outside = ["sale.a", "sales", "sales!.a", "sales-x.a", "sales0.a", "salesx.a"]
    assert all(first_key_of("Sales") < key < last_key_of("Sales") for key in inside)
    assert not any(first_key_of("Sales") < key < last_key_of("Sales") for key in outside)


def test_a_partition_filter_names_partition_columns() -> None:
    ok = ((PartitionValue(name="day", value="2026-01-01"),),)
    assert require_partitions(ok, TABLE) == ok
    with pytest.raises(InvalidInput, match="'id' is not a partition column; the partition columns are day"):
        require_partitions(((PartitionValue(name="id", value="1"),),), TABLE)


@pytest.mark.parametrize(
    "partition",
    [
        (),
        (PartitionValue(name="day", op="LIKE"),),
        (PartitionValue(name="day", value="1", property_key="k"),),
    ],
)
def test_a_filter_that_means_nothing_is_refused(partition: tuple[PartitionValue, ...]) -> None:
    with pytest.raises(InvalidInput):
        require_partitions((partition,), TABLE)


def test_a_filter_by_property_never_becomes_no_filter() -> None:
    by_property = (PartitionValue(name="day", property_key="day"),)
    fixed = (PartitionValue(name="day", value="1"),)
    assert resolved((by_property,), {"day": "2"}) == ((PartitionValue(name="day", value="2"),),)
    assert resolved((by_property, fixed), {}) == (fixed,)
    assert resolved((), {}) == ()
    with pytest.raises(Forbidden, match="properties day"):
        resolved((by_property,), {})
