"""Transactions: all operations in one entry, or none and an error that names the one that failed."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from moorage.testing import builders as make
from tests.api.house import Console, House, at_once, done, refused, to_namespace

Op = dict[str, Any]


def create(*path: str, **given: Any) -> Op:
    return {"op": "create_namespace", "path": path, **given}


def rename(kind: str, path: str, to: str) -> Op:
    return {"op": "rename", "kind": kind, "path": path.split("."), "to": to.split(".")}


def drop(kind: str, path: str, **given: Any) -> Op:
    return {"op": "drop", "kind": kind, "path": path.split("."), **given}


def set_properties(kind: str, path: str, **given: Any) -> Op:
    return {"op": "set_properties", "kind": kind, "path": path.split("."), **given}


async def transact(console: Console, *operations: Op, **given: Any) -> httpx.Response:
    return await console.post("/transactions", {"operations": operations}, **given)


@pytest.fixture
async def lake(house: House) -> make.Lake:
    return await make.lake(house.ledger, "t", "u")


async def test_all_operations_become_one_entry(house: House, lake: make.Lake) -> None:
    console = house.console
    seq = await console.seq()
    answer = done(
        await transact(
            console,
            create("lake", "new", comment="c", properties={"a": "b"}),
            set_properties("namespace", "lake.sea", properties={"x": "1", "y": "2"}),
            rename("table", "lake.sea.u", "lake.sea.w"),
            set_properties("catalog", "lake", properties={"z": "3"}),
        )
    )
    new = done(await console.get(to_namespace("lake", "new")))
    assert answer == {"seq": seq + 1, "ids": [new["id"], lake.namespace, lake.tables[1], lake.catalog], "versions": []}
    assert (new["comment"], new["properties"]) == ("c", {"a": "b"})
    assert done(await console.get(to_namespace("lake", "sea")))["properties"] == {"x": "1", "y": "2"}
    assert await console.names(f"{to_namespace('lake', 'sea')}/tables") == ["t", "w"]
    entry = done(await console.get("/feed", after=seq))["entries"][0]
    assert [change["type"] for change in entry["story"]["changes"]] == ["create", "update", "rename", "update"]
    assert await console.seq() == seq + 1


@pytest.mark.parametrize(
    ("bad", "status", "code", "field"),
    [
        (create("nowhere", "x"), 404, "CATALOG_NOT_FOUND", "operations[1]"),
        (create("lake", "nowhere", "x"), 404, "NAMESPACE_NOT_FOUND", "operations[1]"),
        (create("lake", "sea"), 409, "NAME_TAKEN", "operations[1].path"),
        (create("lake"), 400, "INVALID_INPUT", "operations[1].path"),
        (create("lake", "a\nb"), 400, "INVALID_INPUT", "operations[1].path"),
        (drop("namespace", "lake.sea"), 409, "NOT_EMPTY", "operations[1]"),
        (drop("table", "lake.sea.nowhere"), 404, "TABLE_NOT_FOUND", "operations[1]"),
        (drop("view", "lake.sea.t"), 404, "VIEW_NOT_FOUND", "operations[1]"),
        (drop("metastore", "lake"), 400, "INVALID_INPUT", "operations[1].kind"),
        (drop("stage", "lake.sea.t"), 400, "INVALID_INPUT", "operations[1].kind"),
        (drop("catalog", "lake.sea"), 400, "INVALID_INPUT", "operations[1].path"),
        (drop("table", "lake.t"), 400, "INVALID_INPUT", "operations[1].path"),
        (rename("table", "lake.sea.t", "lake.sea.u"), 409, "NAME_TAKEN", "operations[1].to"),
        (rename("table", "lake.sea.t", "lake.t"), 400, "INVALID_INPUT", "operations[1].to"),
        (rename("table", "lake.sea.t", "lake.nowhere.t"), 404, "NAMESPACE_NOT_FOUND", "operations[1]"),
        (rename("namespace", "lake.sea", "lake.sea.sea"), 400, "INVALID_INPUT", "operations[1].to"),
        (
            set_properties("table", "lake.sea.t", properties={"a": "1"}, remove=["a"]),
            400,
            "INVALID_INPUT",
            "operations[1].remove_properties",
        ),
        # They are in its log.
        (
            set_properties("table", "lake.sea.t", properties={"a": "1"}),
            400,
            "INVALID_INPUT",
            "operations[1].properties",
        ),
    ],
)
async def test_the_operation_that_fails_is_named_and_nothing_is_done(
    house: House, lake: make.Lake, bad: Op, status: int, code: str, field: str
) -> None:
    seq = await house.console.seq()
    error = refused(
        await transact(house.console, create("lake", "first"), bad, create("lake", "last")), status, code, field
    )
    assert error["details"]["operation"] == 1
    assert await house.console.seq() == seq
    assert await house.console.names("/catalogs/lake/namespaces") == ["sea"]


async def test_two_tables_swap_their_names(house: House, lake: make.Lake) -> None:
    done(
        await transact(
            house.console, rename("table", "lake.sea.t", "lake.sea.u"), rename("table", "lake.sea.u", "lake.sea.t")
        )
    )
    tables = done(await house.console.get(f"{to_namespace('lake', 'sea')}/tables"))["items"]
    assert [(item["name"], item["id"]) for item in tables] == [("t", lake.tables[1]), ("u", lake.tables[0])]


async def test_three_names_rotate_and_a_dropped_name_is_reused(house: House, lake: make.Lake) -> None:
    for name in ("a", "b", "c", "d"):
        await house.console.make("lake", name)
    ids = {name: done(await house.console.get(to_namespace("lake", name)))["id"] for name in "abcd"}
    done(
        await transact(
            house.console,
            rename("namespace", "lake.a", "lake.b"),
            rename("namespace", "lake.b", "lake.c"),
            rename("namespace", "lake.c", "lake.d"),
            drop("namespace", "lake.d"),
            create("lake", "a"),
        )
    )
    after = {name: done(await house.console.get(to_namespace("lake", name)))["id"] for name in "abcd"}
    assert (after["b"], after["c"], after["d"]) == (ids["a"], ids["b"], ids["c"])
    assert after["a"] not in ids.values()


async def test_a_table_moves_to_another_namespace_and_a_namespace_does_not(house: House, lake: make.Lake) -> None:
    await house.console.make("sea")
    await house.console.make("sea", "deep")
    done(await transact(house.console, rename("table", "lake.sea.t", "sea.deep.t2")))
    assert done(await house.console.get(f"{to_namespace('sea', 'deep')}/tables/t2"))["id"] == lake.table
    answer = await transact(house.console, rename("namespace", "lake.sea", "sea.sea"))
    refused(answer, 400, "INVALID_INPUT", "operations[0].to")


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (
            set_properties("namespace", "lake.sea", properties={"a": "1"}),
            drop("namespace", "lake.SEA", cascade=True),
            "operations 0 and 1 change the same object; join them into one",
        ),
        (create("lake", "x"), create("lake", "X"), "operations 0 and 1 take the same name"),
        (
            rename("table", "lake.sea.t", "lake.sea.z"),
            rename("table", "lake.sea.u", "lake.sea.Z"),
            "operations 0 and 1 take the same name",
        ),
        (
            rename("namespace", "lake.sea", "lake.x"),
            create("lake", "x"),
            "operations 0 and 1 take the same name",
        ),
    ],
)
async def test_two_operations_on_the_same_object_or_name_are_refused(
    house: House, lake: make.Lake, first: Op, second: Op, message: str
) -> None:
    seq = await house.console.seq()
    error = refused(await transact(house.console, first, second), 400, "INVALID_INPUT", "operations[1]")
    assert error["message"] == message
    assert await house.console.seq() == seq


@pytest.mark.parametrize(
    ("operation", "field"),
    [
        (create("lake", "sea", "x"), "path"),
        (create("lake", "sea", "deep", "x"), "path"),
        (rename("table", "other.o.t", "lake.sea.moved"), "to"),
    ],
)
async def test_nothing_is_created_below_an_object_that_the_same_transaction_drops(
    house: House, lake: make.Lake, operation: Op, field: str
) -> None:
    console = house.console
    await console.make("lake", "sea", "deep")
    await console.make("other")
    other = await console.make("other", "o")
    await make.add(house.ledger, make.table(other["id"], "t"))
    gone = drop("namespace", "lake.sea", cascade=True)
    error = refused(await transact(console, gone, operation), 400, "INVALID_INPUT", f"operations[1].{field}")
    assert error["message"] == "the same transaction drops namespace 'sea'"
    error = refused(await transact(console, operation, gone), 400, "INVALID_INPUT", f"operations[0].{field}")
    assert await console.names("/catalogs/lake/namespaces") == ["sea"]


async def test_a_transaction_has_one_to_a_hundred_operations(console: Console) -> None:
    await console.make("lake")
    refused(await transact(console), 400, "INVALID_INPUT", "operations")
    refused(await transact(console, *[create("lake", f"n{n}") for n in range(101)]), 400, "INVALID_INPUT", "operations")
    assert len(done(await transact(console, *[create("lake", f"n{n}") for n in range(100)]))["ids"]) == 100


@pytest.mark.parametrize("operation", [{}, {"op": "sink"}, {"op": None}, {"op": 3}, [], None, "drop", 1])
async def test_an_unknown_operation_is_refused_with_its_field(console: Console, operation: Any) -> None:
    answer = await console.post("/transactions", {"operations": [operation]})
    assert answer.status_code == 400, answer.text
    assert str(answer.json()["error"]["field"]).startswith("operations")


async def test_of_transactions_that_race_for_one_name_one_succeeds_completely(house: House, lake: make.Lake) -> None:
    answers = await at_once(
        *[transact(house.console, create("lake", "prize"), create("lake", f"of{n}")) for n in range(8)]
    )
    assert sorted(answer.status_code for answer in answers) == [200] + [409] * 7
    winner = next(n for n, answer in enumerate(answers) if answer.status_code == 200)
    assert await house.console.names("/catalogs/lake/namespaces") == [f"of{winner}", "prize", "sea"]
    losers = [answer.json()["error"] for answer in answers if answer.status_code == 409]
    assert {(error["code"], error["field"]) for error in losers} == {("NAME_TAKEN", "operations[0].path")}
