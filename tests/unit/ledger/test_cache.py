"""The object cache is limited in bytes, however large the objects are."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from moorage import fresh
from moorage.core.entries import Update
from moorage.core.ids import SecurableId
from moorage.core.securables import Column, Doc, Kind, Securable, TableDoc
from moorage.ledger.cache import Memory

ROOT = fresh.securable_id()
MB = 1024 * 1024
MEGABYTE = "x" * MB

LARGE = {
    "properties": Doc(properties={"words": MEGABYTE}),
    "columns": Doc(table=TableDoc(format="delta", columns=(Column(name="a", type_text="t", type_json=MEGABYTE),))),
    "comments": Doc(table=TableDoc(format="delta", columns=(Column(name="a", type_text="t", comment=MEGABYTE),))),
    "details": Doc(details={"view": {"sql": MEGABYTE}}),
}


def table(number: int, doc: Doc) -> Securable:
    return Securable(
        id=fresh.securable_id(),
        kind=Kind.TABLE,
        parent=ROOT,
        name=f"t{number}",
        owner="o",
        revision=1,
        created_at_ms=1,
        created_by="o",
        updated_at_ms=1,
        updated_by="o",
        doc=doc,
    )


def add_each(memory: Memory, tables: list[Securable]) -> None:
    for each in tables:
        memory.learn([each])


def add_pages(memory: Memory, tables: list[Securable]) -> None:
    for at in range(0, len(tables), 10):
        memory.add_children(tables[at : at + 10])


def update(memory: Memory, tables: list[Securable]) -> None:
    memory.learn([replace(each, doc=Doc()) for each in tables])
    for each in tables:
        memory.follow([Update(id=each.id, doc=each.doc)], 2, "me")


def cached_count(memory: Memory, ids: list[SecurableId]) -> int:
    return sum(memory.climb(ROOT, id) is not None for id in ids)


@pytest.mark.parametrize("large_part", LARGE)
@pytest.mark.parametrize("fill", [add_each, add_pages, update])
def test_the_cache_is_limited_in_bytes(fill: Callable[[Memory, list[Securable]], None], large_part: str) -> None:
    memory = Memory()
    tables = [table(number, LARGE[large_part]) for number in range(400)]
    fill(memory, tables)
    assert cached_count(memory, [each.id for each in tables]) < 270


def test_ten_thousand_small_objects_are_cached() -> None:
    memory = Memory()
    tables = [table(number, Doc(comment="small")) for number in range(10_000)]
    add_each(memory, tables)
    assert cached_count(memory, [each.id for each in tables]) == 10_000


def test_an_object_that_changes_often_stays_cached() -> None:
    memory = Memory()
    changing = table(1, LARGE["properties"])
    for _ in range(1_000):
        memory.learn([changing])
        memory.follow([Update(id=changing.id, doc=changing.doc)], 2, "me")
    memory.learn([changing])
    assert memory.climb(ROOT, changing.id)
