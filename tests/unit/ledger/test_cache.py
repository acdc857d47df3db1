"""What the embedded ledger remembers has bounds, however large the objects are."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from moorage import fresh
from moorage.core.entries import Update
from moorage.core.ids import SecurableId
from moorage.core.securables import Column, Doc, Kind, Securable, TableDoc
from moorage.ledger.sqlite.cache import Memory
from moorage.testing import builders as make

ROOT = fresh.securable_id()
MB = 1024 * 1024
WORDS = "x" * MB

LARGE = {
    "properties": Doc(properties={"words": WORDS}),
    "columns": Doc(table=TableDoc(format="delta", columns=(Column(name="a", type_text="t", type_json=WORDS),))),
    "comments": Doc(table=TableDoc(format="delta", columns=(Column(name="a", type_text="t", comment=WORDS),))),
    "details": Doc(details={"view": {"sql": WORDS}}),
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


def learn(memory: Memory, tables: list[Securable]) -> None:
    for each in tables:
        memory.learn([each])


def learn_list(memory: Memory, tables: list[Securable]) -> None:
    for at in range(0, len(tables), 10):
        memory.add_children(tables[at : at + 10])


def update(memory: Memory, tables: list[Securable]) -> None:
    memory.learn([replace(each, doc=Doc()) for each in tables])
    for each in tables:
        memory.follow(make.draft(Update(id=each.id, doc=each.doc)), 2)


def remembered(memory: Memory, ids: list[SecurableId]) -> int:
    return sum(memory.climb(ROOT, id) is not None for id in ids)


@pytest.mark.parametrize("words", LARGE)
@pytest.mark.parametrize("come_by", [learn, learn_list, update])
def test_so_many_megabytes_are_remembered_and_no_more(
    come_by: Callable[[Memory, list[Securable]], None], words: str
) -> None:
    memory = Memory()
    tables = [table(number, LARGE[words]) for number in range(400)]
    come_by(memory, tables)
    assert remembered(memory, [each.id for each in tables]) < 270


def test_small_objects_are_remembered_by_the_ten_thousand() -> None:
    memory = Memory()
    tables = [table(number, Doc(comment="small")) for number in range(10_000)]
    learn(memory, tables)
    assert remembered(memory, [each.id for each in tables]) == 10_000


def test_what_changes_again_and_again_is_remembered_all_the_same() -> None:
    memory = Memory()
    changing = table(1, LARGE["properties"])
    for _ in range(1_000):
        memory.learn([changing])
        memory.follow(make.draft(Update(id=changing.id, doc=changing.doc)), 2)
    memory.learn([changing])
    assert memory.climb(ROOT, changing.id)
