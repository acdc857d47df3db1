"""Commits so large that they are checked one at a time, possibly for longer than the request timeout."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from moorage.core.callers import LOCAL
from moorage.formats.delta.commit_check import Proposal
from moorage.storage.port import Storage
from moorage.testing import delta_writer as write
from moorage.usecases.delta.commits import CommitRequest, commit, prepare_commit
from moorage.usecases.delta.lookup import require_head
from moorage.usecases.ports import Errand
from tests.api.delta.delta_client import DeltaClient
from tests.api.house import House


class CountingStorage:
    """A storage that counts its reads and the concurrent ones. Reads wait while it is not open."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._readers = 0
        self.max_readers = 0
        self.reads = 0
        self.entered, self.opened = asyncio.Event(), asyncio.Event()
        self.opened.set()

    async def read(self, root: str, path: str, *, limit: int) -> bytes | None:
        self.reads += 1
        self._readers += 1
        self.max_readers = max(self.max_readers, self._readers)
        self.entered.set()
        try:
            await self.opened.wait()
            return await self._storage.read(root, path, limit=limit)
        finally:
            self._readers -= 1

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)


async def _huge_commit(client: DeltaClient, name: str) -> CommitRequest:
    table = await client.make(name)
    info = table.stage(1, *[write.add(stats="x" * 1_000_000) for _ in range(17)])
    proposal = Proposal(
        version=1,
        timestamp_ms=info["timestamp"],
        file_name=info["file_name"],
        file_size=info["file_size"],
        file_modified_ms=info["file_modification_timestamp"],
    )
    return CommitRequest(table_id=table.id, proposal=proposal)


async def test_a_retry_of_a_huge_commit_finds_the_check_that_continued_after_the_timeout(
    spec: DeltaClient, house: House
) -> None:
    storage = CountingStorage(house.ports.storage)
    ports, errand = replace(house.ports, storage=storage), Errand(caller=LOCAL, api="unity", request="r")
    request = await _huge_commit(spec, "t")
    storage.opened.clear()
    too_slow = asyncio.create_task(commit(ports, errand, request))
    await storage.entered.wait()
    too_slow.cancel()
    with pytest.raises(asyncio.CancelledError):
        await too_slow
    retry = asyncio.create_task(commit(ports, errand, request))
    storage.opened.set()
    assert require_head(await retry).version == 1
    assert storage.reads == 1


async def test_huge_commits_to_many_tables_are_checked_one_at_a_time(spec: DeltaClient, house: House) -> None:
    storage = CountingStorage(house.ports.storage)
    ports = replace(house.ports, storage=storage)
    requests = [await _huge_commit(spec, name) for name in ("a", "b", "c")]
    parts = await asyncio.gather(*[prepare_commit(ports, LOCAL, request) for request in requests])
    assert [part.done.versions for part in parts] == [(1,), (1,), (1,)]
    assert storage.max_readers == 1
