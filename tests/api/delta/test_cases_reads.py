"""Section J: the commits that the server announces to readers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from moorage.core.ids import SecurableId
from moorage.testing import builders as make
from moorage.testing import delta_writer as write
from moorage.usecases.delta.history import PAGE_SIZE
from moorage.usecases.upkeep.publish import publish_due
from tests.api.delta.cases import INVALID, refuses, row
from tests.api.delta.delta_client import CLASSIC, UNITY, DeltaClient, Staged, ok
from tests.api.house import House


@pytest.fixture(params=["spec", "preview"])
def client(request: pytest.FixtureRequest, spec: DeltaClient) -> DeltaClient:
    return DeltaClient(spec.http, request.param)


async def with_commits(client: DeltaClient, count: int = 4) -> Staged:
    table = await client.make()
    for version in range(1, count + 1):
        ok(await client.commit(table, table.stage(version)))
    return table


def path_of(client: DeltaClient) -> str:
    return UNITY + ("/delta/commits" if client.family == "spec" else "/delta/preview/commits")


async def test_case_129_and_130_parameters_are_accepted_in_the_body_or_in_the_query(client: DeltaClient) -> None:
    table = await with_commits(client)
    wanted: dict[str, Any] = {"table_id": table.id, "table_uri": table.location, "start_version": 0}
    in_body = ok(await client.get_commits(table, start_version=0))
    in_query = ok(await client.http.get(path_of(client), params=wanted))
    assert in_body == in_query
    assert [info["version"] for info in in_body["commits"]] == [1, 2, 3, 4]
    assert set(in_body["commits"][0]) == {
        "version",
        "timestamp",
        "file_name",
        "file_size",
        "file_modification_timestamp",
    }


async def test_case_171_a_body_and_a_query_that_disagree_are_refused(client: DeltaClient) -> None:
    table = await with_commits(client, 1)
    other = await client.make("other")
    answer = await client.http.request(
        "GET", path_of(client), params={"table_id": other.id}, json={"table_id": table.id}
    )
    refuses(answer, 400, *INVALID, "table_id")


async def test_case_131_without_bounds_all_versions_are_returned(client: DeltaClient) -> None:
    table = await with_commits(client)
    assert await client.announced(table) == ([1, 2, 3, 4], 4)


@pytest.mark.parametrize(
    ("wanted", "status"),
    [
        row(132, "a negative start", {"start_version": -1}, 400),
        row(132, "an end before the start", {"start_version": 2, "end_version": 1}, 400),
        row(132, "a negative end", {"end_version": -1}, 400),
        row(132, "text", {"start_version": "x"}, 400),
        row(133, "another location", {"table_uri": "file:///elsewhere"}, 400),
        row(48, "no id", {"table_id": None}, 400),
        row(49, "not a UUID", {"table_id": "x"}, 400),
        row(138, "an unknown id", {"table_id": "00000000-0000-4000-8000-000000000000"}, 404),
    ],
)
async def test_an_invalid_request_is_refused(client: DeltaClient, wanted: dict[str, Any], status: int) -> None:
    table = await with_commits(client, 1)
    refuses(await client.get_commits(table, **wanted), status)


@pytest.mark.parametrize(
    ("wanted", "versions"),
    [
        row(134, "a slice", {"start_version": 2, "end_version": 3}, [2, 3]),
        row(134, "one", {"start_version": 2, "end_version": 2}, [2]),
        row(134, "an end past the latest", {"start_version": 3, "end_version": 99}, [3, 4]),
        row(134, "version 0 is always in the folder", {"start_version": 0, "end_version": 0}, []),
        row(135, "a start past the latest", {"start_version": 5}, []),
    ],
)
async def test_the_response_to_a_range_contains_the_latest_version(
    client: DeltaClient, wanted: dict[str, Any], versions: list[int]
) -> None:
    table = await with_commits(client)
    assert await client.announced(table, **wanted) == (versions, 4)


async def test_case_136_2500_commits_are_returned_in_pages_without_a_gap(
    client: DeltaClient, v1: DeltaClient, house: House
) -> None:
    table = await client.make()
    changes = [make.published_commit(SecurableId(table.id), v, details={"modified_ms": 1}) for v in range(1, 2501)]
    for first in range(0, 2500, 500):
        await make.add(house.ledger, *changes[first : first + 500])
    found: list[int] = []
    while True:
        versions, latest = await client.announced(table, start_version=found[-1] + 1 if found else 0)
        found += versions
        assert latest == 2500
        assert len(versions) <= PAGE_SIZE
        if found[-1] == latest:
            break
    assert found == list(range(1, 2501))
    loaded = ok(await v1.load())
    assert [commit["version"] for commit in loaded["commits"]] == list(range(2500, 0, -1))


@pytest.mark.parametrize("kind", [row(137, kind, kind) for kind in ("DELTA", "PARQUET")])
async def test_the_latest_version_of_an_external_table_is_minus_one(client: DeltaClient, kind: str) -> None:
    body = {**CLASSIC, "name": "e", "table_type": "EXTERNAL", "data_source_format": kind, "columns": []}
    made = ok(await client.http.post(f"{UNITY}/tables", json={**body, "storage_location": "/data/e"}))
    assert await client.announced(Staged("e", made["table_id"], "/data/e")) == ([], -1)


async def test_case_138_a_dropped_table_has_no_commits(client: DeltaClient) -> None:
    table = await with_commits(client, 1)
    ok(await client.http.delete(f"{UNITY}/tables/lake.sea.t"))
    refuses(await client.get_commits(table), 404, "TABLE_DOES_NOT_EXIST")


@pytest.mark.parametrize("family", ["spec", "v1"])
async def test_a_reader_that_lists_the_folder_and_then_requests_commits_never_sees_a_gap(
    spec: DeltaClient, house: House, family: str
) -> None:
    client = DeltaClient(spec.http, family)
    table = await client.make()
    done = asyncio.Event()

    async def writer() -> None:
        for version in range(1, 41):
            info = table.stage(version)
            ok(await client.commit(table, info))
            if version % 3:
                await publish_due(house.ports)
            else:
                write.publish(table.folder, info)
        done.set()

    async def reader() -> int:
        rounds = 0
        while not done.is_set():
            listed = write.published(table.folder)
            await asyncio.sleep(0)
            announced, latest = await client.announced(table)
            assert sorted({*listed, *announced}) == list(range(latest + 1)) or max(listed) > latest
            rounds += 1
        return rounds

    rounds, _ = await asyncio.gather(reader(), writer())
    assert rounds > 10
