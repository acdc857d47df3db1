"""Delta commits as operations of a transaction."""

from __future__ import annotations

from typing import Any

from moorage.usecases.upkeep.publish import publish_due
from tests.api.delta.delta_client import DeltaClient, Staged, ok
from tests.api.house import House, done, refused


def operation(table: Staged, version: int, /, **changes: Any) -> dict[str, Any]:
    return {"op": "delta_commit", "table_id": table.id, **table.stage(version), **changes}


async def test_commits_to_two_tables_are_one_entry(spec: DeltaClient, house: House) -> None:
    one, two = await spec.make("one"), await spec.make("two")
    seq = (await house.ledger.position()).seq
    ops = [operation(one, 1), operation(two, 1), {"op": "create_namespace", "path": ["lake", "new"]}]
    answer = done(await house.console.post("/transactions", {"operations": ops}))
    assert (answer["seq"], answer["ids"][:2], answer["versions"]) == (seq + 1, [one.id, two.id], [1, 1])
    assert [await spec.announced(table) for table in (one, two)] == [([1], 1), ([1], 1)]
    assert await publish_due(house.ports) == 2


async def test_a_conflict_on_one_table_fails_the_whole_transaction(spec: DeltaClient, house: House) -> None:
    one, two = await spec.make("one"), await spec.make("two")
    ok(await spec.commit(two, two.stage(1)))
    answer = await house.console.post("/transactions", {"operations": [operation(one, 1), operation(two, 1)]})
    error = refused(answer, 409, "VERSION_TAKEN", "operations[1].version")
    assert error["details"]["operation"] == 1
    assert await spec.announced(one) == ([], 0)


async def test_an_invalid_commit_is_reported_with_the_index_of_its_operation(spec: DeltaClient, house: House) -> None:
    table = await spec.make()
    for wrong, field in (({"file_size": 1}, "file_size"), ({"version": 0}, "version"), ({"version": 3}, "file_name")):
        answer = await house.console.post("/transactions", {"operations": [operation(table, 1, **wrong)]})
        refused(answer, 400, "INVALID_INPUT", f"operations[0].{field}")


async def test_two_commits_to_one_table_in_a_transaction_are_refused(spec: DeltaClient, house: House) -> None:
    table = await spec.make()
    ops = [operation(table, 1), operation(table, 1)]
    refused(await house.console.post("/transactions", {"operations": ops}), 400, "INVALID_INPUT", "operations[1]")


async def test_a_transaction_can_be_retried_only_with_its_idempotency_key(spec: DeltaClient, house: House) -> None:
    table = await spec.make()
    body = {"operations": [operation(table, 1)]}
    first = done(await house.console.post("/transactions", body, key="k"))
    assert done(await house.console.post("/transactions", body, key="k")) == first
    answer = await house.console.post("/transactions", body)
    assert "Idempotency-Key" in refused(answer, 409, "VERSION_TAKEN", "operations[0].version")["message"]
    assert await spec.announced(table) == ([1], 1)
