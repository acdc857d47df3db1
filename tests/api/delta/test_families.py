"""Managed tables behave the same through every API family."""

from __future__ import annotations

from moorage.testing import delta_writer as write
from moorage.testing.builders import START_MS
from tests.api.delta.delta_client import DeltaClient, error_name, ok
from tests.api.house import House


async def test_a_table_is_staged_written_created_and_committed_to(client: DeltaClient) -> None:
    table = await client.make()
    assert await client.announced(table) == ([], 0)
    for version in (1, 2, 3):
        ok(await client.commit(table, table.stage(version)))
    assert await client.announced(table) == ([1, 2, 3], 3)


async def test_a_commit_through_one_family_is_visible_through_the_others(
    client: DeltaClient, spec: DeltaClient, v1: DeltaClient
) -> None:
    table = await client.make()
    ok(await v1.commit(table, table.stage(1)))
    ok(await spec.commit(table, table.stage(2)))
    ok(await DeltaClient(spec.http, "preview").commit(table, table.stage(3)))
    assert await client.announced(table) == ([1, 2, 3], 3)


async def test_a_writer_that_lost_a_race_receives_a_conflict_even_without_its_file(client: DeltaClient) -> None:
    table = await client.make()
    ok(await client.commit(table, table.stage(1)))
    late = table.stage(1)
    for path in (table.folder / "_delta_log/_staged_commits").glob("*"):
        path.unlink()
    answer = await client.commit(table, late, published=1)
    assert answer.status_code == 409
    assert error_name(answer) in ("ALREADY_EXISTS", "CommitVersionConflictException")


async def test_a_commit_can_be_retried_as_long_as_its_history_is_kept(client: DeltaClient) -> None:
    table = await client.make()
    first = table.stage(1)
    ok(await client.commit(table, first))
    for version in range(2, 30):
        ok(await client.commit(table, table.stage(version)))
    for path in (table.folder / "_delta_log/_staged_commits").glob("*"):
        path.unlink()
    ok(await client.commit(table, first, published=400))
    assert await client.announced(table) == (list(range(1, 30)), 29)


async def test_a_retry_that_stages_the_same_bytes_under_another_name_succeeds(client: DeltaClient) -> None:
    """Delta's kernel stages the file again under another name. After a conflict it could not know the outcome."""
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
    assert await client.announced(table) == ([1, 2], 2)


async def test_a_version_that_a_client_published_is_no_longer_announced(client: DeltaClient) -> None:
    table = await client.make()
    infos = [table.stage(version) for version in (1, 2, 3)]
    for info in infos:
        ok(await client.commit(table, info))
        write.publish(table.folder, info)
    ok(await client.commit(table, published=2))
    assert await client.announced(table) == ([3], 3)
    ok(await client.commit(table, table.stage(4), published=3))
    assert await client.announced(table) == ([4], 4)


async def test_a_replace_keeps_the_table_and_its_history(client: DeltaClient, spec: DeltaClient) -> None:
    table = await client.make()
    other = ({"name": "name", "type": "string", "nullable": True, "metadata": {}},)
    replaced = write.metadata(write.configuration(table.id), other, id="8d2e1d1a-7f0c-4c62-9f5b-0d9a3c1e5b88")
    info = write.commit_info(START_MS + 1, "CREATE OR REPLACE TABLE AS SELECT", isBlindAppend=False)
    ok(await client.commit(table, table.stage(1, info, replaced, write.add())))
    shown = ok(await spec.get_table())
    assert shown["table_id"] == table.id
    assert [column["name"] for column in shown["columns"]] == ["name"]
    assert await client.announced(table) == ([1], 1)


async def test_a_commit_cannot_give_the_table_another_id(client: DeltaClient) -> None:
    table = await client.make()
    other = write.metadata(write.configuration("00000000-0000-4000-8000-000000000000"))
    answer = await client.commit(table, table.stage(1, other, write.add()))
    assert answer.status_code == 400
    assert "io.unitycatalog.tableId" in answer.text


async def test_a_table_can_be_created_with_rows(client: DeltaClient) -> None:
    table = await client.make("t", write.add(), write.add())
    assert await client.announced(table) == ([], 0)


async def test_a_restored_table_has_its_commits(client: DeltaClient, house: House) -> None:
    table = await client.make()
    ok(await client.commit(table, table.stage(1)))
    ok(await client.http.delete(f"/api/2.1/unity-catalog/tables/lake.sea.{table.name}"))
    gone = await client.commit(table, table.stage(2))
    assert gone.status_code == 404
    ok(await house.console.post("/undrop", {"kind": "table", "id": table.id}))
    assert await client.announced(table) == ([1], 1)
    ok(await client.commit(table, table.stage(2)))
