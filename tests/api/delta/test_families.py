"""The life of a managed table is the same through every family of the API."""

from __future__ import annotations

from moorage.testing import delta_writer as write
from moorage.testing.builders import START_MS
from tests.api.delta.delta_client import DeltaClient, error_name, ok
from tests.api.house import House


async def test_a_table_is_staged_written_created_and_committed_to(client: DeltaClient) -> None:
    table = await client.make()
    assert await client.told(table) == ([], 0)
    for version in (1, 2, 3):
        ok(await client.commit(table, table.stage(version)))
    assert await client.told(table) == ([1, 2, 3], 3)


async def test_a_family_shows_what_another_wrote(client: DeltaClient, spec: DeltaClient, v1: DeltaClient) -> None:
    table = await client.make()
    ok(await v1.commit(table, table.stage(1)))
    ok(await spec.commit(table, table.stage(2)))
    ok(await DeltaClient(spec.http, "preview").commit(table, table.stage(3)))
    assert await client.told(table) == ([1, 2, 3], 3)


async def test_the_loser_of_a_race_is_told_to_rebase_even_without_its_file(client: DeltaClient) -> None:
    table = await client.make()
    ok(await client.commit(table, table.stage(1)))
    late = table.stage(1)
    for path in (table.folder / "_delta_log/_staged_commits").glob("*"):
        path.unlink()
    answer = await client.commit(table, late, published=1)
    assert answer.status_code == 409
    assert error_name(answer) in ("ALREADY_EXISTS", "CommitVersionConflictException")


async def test_a_lost_answer_is_given_again_for_as_long_as_history_lives(client: DeltaClient) -> None:
    table = await client.make()
    first = table.stage(1)
    ok(await client.commit(table, first))
    for version in range(2, 30):
        ok(await client.commit(table, table.stage(version)))
    for path in (table.folder / "_delta_log/_staged_commits").glob("*"):
        path.unlink()
    ok(await client.commit(table, first, published=400))
    assert await client.told(table) == (list(range(1, 30)), 29)


async def test_a_commit_that_was_staged_once_more_after_a_lost_answer_is_the_same_commit(client: DeltaClient) -> None:
    """Delta's kernel gives it another name, and would not know what became of it if it heard of a conflict."""
    table = await client.make()
    actions = write.commit_info(START_MS + 1), write.add()
    ok(await client.commit(table, table.stage(1, *actions)))
    ok(await client.commit(table, table.stage(1, *actions)))
    ok(await client.commit(table, table.stage(2)))
    ok(await client.commit(table, table.stage(1, *actions)))
    other = table.stage(1, actions[0], write.add())
    lost = table.stage(1, *actions)
    (table.folder / "_delta_log/_staged_commits" / lost["file_name"]).unlink()
    for late in (other, lost):
        answer = await client.commit(table, late)
        assert answer.status_code == 409
    assert await client.told(table) == ([1, 2], 2)


async def test_what_a_client_published_it_need_not_be_told_again(client: DeltaClient) -> None:
    table = await client.make()
    infos = [table.stage(version) for version in (1, 2, 3)]
    for info in infos:
        ok(await client.commit(table, info))
        write.publish(table.folder, info)
    ok(await client.commit(table, published=2))
    assert await client.told(table) == ([3], 3)
    ok(await client.commit(table, table.stage(4), published=3))
    assert await client.told(table) == ([4], 4)


async def test_a_replace_keeps_the_table_and_its_history(client: DeltaClient, spec: DeltaClient) -> None:
    table = await client.make()
    other = ({"name": "name", "type": "string", "nullable": True, "metadata": {}},)
    replaced = write.metadata(write.configuration(table.id), other, id="8d2e1d1a-7f0c-4c62-9f5b-0d9a3c1e5b88")
    info = write.commit_info(START_MS + 1, "CREATE OR REPLACE TABLE AS SELECT", isBlindAppend=False)
    ok(await client.commit(table, table.stage(1, info, replaced, write.add())))
    shown = ok(await spec.get_table())
    assert shown["table_id"] == table.id
    assert [column["name"] for column in shown["columns"]] == ["name"]
    assert await client.told(table) == ([1], 1)


async def test_a_commit_cannot_give_the_table_another_id(client: DeltaClient) -> None:
    table = await client.make()
    other = write.metadata(write.configuration("00000000-0000-4000-8000-000000000000"))
    answer = await client.commit(table, table.stage(1, other, write.add()))
    assert answer.status_code == 400
    assert "io.unitycatalog.tableId" in answer.text


async def test_a_table_may_be_created_with_its_rows(client: DeltaClient) -> None:
    table = await client.make("t", write.add(), write.add())
    assert await client.told(table) == ([], 0)


async def test_a_dropped_table_comes_back_with_its_commits(client: DeltaClient, house: House) -> None:
    table = await client.make()
    ok(await client.commit(table, table.stage(1)))
    ok(await client.http.delete(f"/api/2.1/unity-catalog/tables/lake.sea.{table.name}"))
    gone = await client.commit(table, table.stage(2))
    assert gone.status_code == 404
    ok(await house.console.post("/undrop", {"kind": "table", "id": table.id}))
    assert await client.told(table) == ([1], 1)
    ok(await client.commit(table, table.stage(2)))
