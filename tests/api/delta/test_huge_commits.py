"""Commits so large that they are looked at one after another, and perhaps for longer than a request may take."""

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
from moorage.usecases.delta.lookup import head_of
from moorage.usecases.ports import Errand
from tests.api.delta.delta_client import DeltaClient
from tests.api.house import House


class Library:
    """A storage that notes how many huge files are read, and how many at once, whenever it is open."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._readers = 0
        self.most_readers = 0
        self.visits = 0
        self.entered, self.opened = asyncio.Event(), asyncio.Event()
        self.opened.set()

    async def read(self, root: str, path: str, *, limit: int) -> bytes | None:
        self.visits += 1
        self._readers += 1
        self.most_readers = max(self.most_readers, self._readers)
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


async def test_a_huge_commit_whose_request_ran_out_of_time_is_found_when_it_is_sent_again(
    spec: DeltaClient, house: House
) -> None:
    library = Library(house.ports.storage)
    ports, errand = replace(house.ports, storage=library), Errand(caller=LOCAL, api="unity", request="r")
    request = await _huge_commit(spec, "t")
    library.opened.clear()
    too_slow = asyncio.create_task(commit(ports, errand, request))
    await library.entered.wait()
    too_slow.cancel()
    with pytest.raises(asyncio.CancelledError):
        await too_slow
    again = asyncio.create_task(commit(ports, errand, request))
    library.opened.set()
    assert head_of(await again).version == 1
    assert library.visits == 1


async def test_huge_commits_to_many_tables_come_one_after_another(spec: DeltaClient, house: House) -> None:
    library = Library(house.ports.storage)
    ports = replace(house.ports, storage=library)
    requests = [await _huge_commit(spec, name) for name in ("a", "b", "c")]
    parts = await asyncio.gather(*[prepare_commit(ports, LOCAL, request) for request in requests])
    assert [part.done.versions for part in parts] == [(1,), (1,), (1,)]
    assert library.most_readers == 1
