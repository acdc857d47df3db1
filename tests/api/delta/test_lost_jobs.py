"""A worker that lost its job without noticing: the server neither rewrites nor deletes anything for it."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import force_setattr

from moorage.core.jobs import LEASE_MS
from moorage.testing import delta_writer as write
from moorage.usecases.local_state import LocalState
from tests.api.delta.delta_client import DeltaClient, Staged, ok
from tests.api.delta.test_expiry import NOW, lease
from tests.api.house import V1, House

FILES = 4


async def small_files(client: DeltaClient) -> Staged:
    table = await client.make(properties=NOW)
    files = [write.add(f"{n}.parquet", size=1000, stats=json.dumps({"numRecords": 1})) for n in range(FILES)]
    ok(await client.commit(table, table.stage(1, *files)))
    return table


async def test_a_worker_that_lost_its_compaction_does_not_remove_the_files_of_the_next_one(
    house: House, spec: DeltaClient
) -> None:
    table = await small_files(spec)
    shadows = f"{V1}/tables/{table.id}/shadows"
    _, asleep = await lease(house, "compact")
    ok(await spec.http.post(shadows, headers=asleep))
    house.clock.advance(LEASE_MS + 1)
    _, awake = await lease(house, "compact", enqueue=False)
    made = ok(await spec.http.post(shadows, headers=awake))["shadow"]
    # Another server has removed no leftovers for the second attempt yet.
    force_setattr(house.ports, "local", LocalState())
    refused = await spec.http.post(shadows, headers=asleep)
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "LEASE_LOST"), refused.text
    folders = [f"{path.parent.name}/{path.name}/" for path in table.folder.glob("compact-*/*")]
    assert folders == [made["folder"]]


@pytest.mark.parametrize(("kind", "path"), [("expire", "expiry"), ("checkpoint", "checkpoint")])
async def test_a_worker_that_lost_its_job_changes_nothing(
    house: House, spec: DeltaClient, kind: str, path: str
) -> None:
    table = await small_files(spec)
    _, asleep = await lease(house, kind)
    house.clock.advance(LEASE_MS + 1)
    await lease(house, kind, enqueue=False)
    refused = await spec.http.post(f"{V1}/tables/{table.id}/{path}", headers=asleep)
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "LEASE_LOST"), refused.text
    assert not list((table.folder / "_delta_log").glob("*checkpoint*"))
