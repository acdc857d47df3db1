"""Iceberg commits as operations of a transaction."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.api.house import done
from tests.api.house import refused as refused_there
from tests.api.iceberg.lake import PERSISTED, Lake, set_property
from tests.api.iceberg.test_commits import AT_NONE
from tests.api.iceberg.test_tables import CREATE, building, set_main, snapshot, stage


def operation(name: str, *updates: Any, requires: Any = ()) -> dict[str, Any]:
    return {"op": "iceberg_commit", "path": ["lake", "sales", name], "requirements": requires, "updates": updates}


async def transact(lake: Lake, *operations: Any, key: str | None = None) -> Any:
    return await lake.house.console.post("/transactions", {"operations": operations}, key=key)


async def test_commits_to_two_tables_and_a_new_one_are_one_entry(lake: Lake) -> None:
    ids = [(await lake.create(name)).json()["metadata"]["table-uuid"] for name in ("a", "b")]
    staged = await stage(lake, "c")
    seq = (await lake.house.ledger.position()).seq
    operations = (
        operation("a", set_property("x")),
        operation("b", snapshot(1, None), set_main(1), requires=[AT_NONE]),
        operation("c", *building(staged), requires=CREATE),
    )
    first = done(await transact(lake, *operations, key="k"))
    assert (first["seq"], first["ids"], first["versions"]) == (seq + 1, [*ids, staged["table-uuid"]], [1, 1, 0])
    assert done(await transact(lake, *operations, key="k")) == first
    assert (await lake.metadata("a"))["properties"] == {**PERSISTED, "x": "1"}
    assert (await lake.metadata("b"))["current-snapshot-id"] == 1
    assert (await lake.metadata("c"))["table-uuid"] == staged["table-uuid"]


async def test_a_failed_requirement_refuses_the_whole_transaction(lake: Lake) -> None:
    await lake.create("a")
    await lake.create("b")
    files = lake.metadata_files()
    wrong = [{"type": "assert-default-spec-id", "default-spec-id": 7}]
    answer = await transact(lake, operation("a", set_property("x")), operation("b", set_property("x"), requires=wrong))
    error = refused_there(answer, 409, "REQUIREMENT_FAILED", "operations[1].requirements")
    assert error["details"]["operation"] == 1
    assert (await lake.metadata("a"))["properties"] == PERSISTED
    assert lake.metadata_files() == files


async def test_an_operation_that_cannot_be_applied_is_named_in_the_error(lake: Lake) -> None:
    await lake.create("a")
    for wrong, field in (
        (operation("a", {"action": "explode"}), "updates[0].action"),
        (operation("a", requires=[{"type": "assert-luck"}]), "requirements[0].type"),
        (operation("a") | {"path": ["lake"]}, "path"),
    ):
        refused_there(await transact(lake, wrong), 400, "INVALID_INPUT", f"operations[0].{field}")
    refused_there(await transact(lake, operation("none")), 404, "TABLE_NOT_FOUND", "operations[0]")


async def test_a_transaction_creates_a_table_under_a_name_that_it_frees_but_not_in_a_namespace_that_it_drops(
    lake: Lake,
) -> None:
    await lake.create("a")
    staged = await stage(lake, "b")
    create = operation("a", *building(staged), requires=CREATE)
    path = ["lake", "sales", "a"]
    away = {"op": "rename", "kind": "table", "path": path, "to": ["lake", "sales", "old"]}
    done(await transact(lake, away, create))
    assert (
        (await lake.metadata("a"))["table-uuid"] == staged["table-uuid"] != (await lake.metadata("old"))["table-uuid"]
    )
    drop = {"op": "drop", "kind": "namespace", "path": ["lake", "sales"], "cascade": True}
    late = operation("c", *building(await stage(lake, "c")), requires=CREATE)
    refused_there(await transact(lake, drop, late), 400, "INVALID_INPUT", "operations[1].path")


async def test_transactions_and_concurrent_commits_all_succeed(lake: Lake) -> None:
    await lake.create("a")
    await lake.create("b")
    single = [lake.commit("a", set_property(f"p{n}")) for n in range(8)]
    transactions = [transact(lake, *(operation(name, set_property(f"t{n}")) for name in "ab")) for n in range(8)]
    answers = await asyncio.gather(*single, *transactions)
    assert [answer.status_code for answer in answers] == [200] * 16
    assert len((await lake.metadata("a"))["properties"]) == 16 + len(PERSISTED)
    assert len((await lake.metadata("b"))["properties"]) == 8 + len(PERSISTED)
