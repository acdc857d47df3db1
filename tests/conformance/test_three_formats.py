"""Transactions over a Delta, an Iceberg and a Lance table while the server is killed: they change all three or none."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import httpx
import lance
import msgspec
import pyarrow as pa
import pytest
from lance_namespace import LanceNamespaceError

from moorage.client.lance import Lake
from moorage.client.operations import DeltaCommit, IcebergCommit, Operation
from moorage.testing import delta_writer as write
from moorage.testing.server import ServerProcess
from tests.api.delta.delta_client import UNITY, DeltaClient, Staged, ok
from tests.api.iceberg.test_tables import set_main, snapshot

SECONDS = 300.0 if os.environ.get("MOORAGE_SOAK") else 8.0
"""The minimum time that the writers write. A slow machine takes longer, until `MIN_KILLS` kills have happened."""
MIN_KILLS = 3
WRITERS = 3
ICEBERG = ("lake", "sea", "ice")
LANCE = ("lake", "sea", "lance")
START_MS = int(time.time() * 1000) - 3_600_000

T = TypeVar("T")


class Trio:
    """Three tables, and clients that retry until the server has restarted."""

    def __init__(self, server: ServerProcess, http: httpx.AsyncClient) -> None:
        self.server, self.http = server, http
        self.delta: Staged
        self.acknowledged: dict[int, str] = {}
        self.stop = False

    async def create_tables(self) -> None:
        client = DeltaClient(self)  # type: ignore[arg-type]  # only its `post` is used
        await client.furnish()
        self.delta = await client.stage("delta")
        write.write_first(
            self.delta.folder,
            write.commit_info(START_MS),
            write.protocol(),
            write.metadata(write.configuration(self.delta.id)),
        )
        ok(await client.create(self.delta, properties={"delta.lastCommitTimestamp": str(START_MS)}))
        schema = {"type": "struct", "fields": [{"id": 1, "name": "id", "type": "long", "required": False}]}
        ok(await self.post("/iceberg/v1/lake/namespaces/sea/tables", json={"name": ICEBERG[-1], "schema": schema}))
        await self._lance(lambda lake: lance.write_dataset(_row(0), namespace_client=lake, table_id=list(LANCE)))

    # --- requests ------------------------------------------------------------------------------

    async def post(self, path: str, **given: Any) -> httpx.Response:
        return await self.request("POST", path, **given)

    async def request(self, verb: str, path: str, **given: Any) -> httpx.Response:
        """Retry until there is a response: a broken connection leaves the outcome of a request unknown."""
        while True:
            try:
                answer = await self.http.request(verb, self.server.url + path, **given)
            except httpx.TransportError:
                await asyncio.sleep(0.02)
                continue
            if answer.status_code < 500:
                return answer

    async def _lance(self, work: Callable[[Lake], T]) -> T:
        """Retry until the server has restarted: pylance does not."""
        deadline = time.monotonic() + 120
        while True:
            try:
                return await asyncio.to_thread(lambda: work(Lake(self.server.url)))
            except (LanceNamespaceError, OSError, ValueError, RuntimeError):
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(0.05)

    # --- state of the tables, by their own APIs ---------------------------------------------------

    async def delta_head(self) -> int:
        query = {"table_id": self.delta.id, "table_uri": self.delta.location, "start_version": 0}
        found = ok(await self.request("GET", f"{UNITY}/delta/commits", params=query))
        return int(found["latest_table_version"])

    async def iceberg_snapshots(self) -> list[int]:
        loaded = ok(await self.request("GET", f"/iceberg/v1/lake/namespaces/sea/tables/{ICEBERG[-1]}"))
        return [each["snapshot-id"] for each in loaded["metadata"].get("snapshots", ())]

    async def lance_rows(self) -> list[int]:
        opened = await self._lance(lambda lake: lance.dataset(namespace_client=lake, table_id=list(LANCE)).to_table())
        return sorted(opened["id"].to_pylist())

    # --- writers and readers -----------------------------------------------------------------------

    async def write(self) -> None:
        while not self.stop:
            version = await self.delta_head() + 1
            staged = self.delta.stage(version, timestamp=START_MS + version)
            parent = version - 1 or None
            operations = (
                DeltaCommit(table_id=self.delta.id, **staged),
                IcebergCommit(
                    path=ICEBERG,
                    requirements=({"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": parent},),
                    updates=(snapshot(version, parent), set_main(version)),
                ),
                await self._stage_lance(version),
            )
            body, key = msgspec.json.encode({"operations": operations}), {"idempotency-key": uuid4().hex}
            answer = await self.post("/api/moorage/v1/transactions", content=body, headers=key)
            if answer.status_code == 200:
                assert self.acknowledged.setdefault(version, staged["file_name"]) == staged["file_name"]
            else:
                assert answer.status_code == 409, answer.text

    async def _stage_lance(self, row: int) -> Operation:
        def stage(lake: Lake) -> Operation:
            transaction = lake.transaction()
            lance.write_dataset(_row(row), namespace_client=transaction, table_id=list(LANCE), mode="append")
            (staged,) = transaction.hand_over()
            return staged

        return await self._lance(stage)

    async def read(self) -> int:
        """Between two reads of the Delta table the other tables may advance, but never past it."""
        rounds = 0
        while not self.stop:
            before = await self.delta_head()
            iceberg, rows = max(await self.iceberg_snapshots(), default=0), (await self.lance_rows())[-1]
            after = await self.delta_head()
            assert before <= iceberg <= after
            assert before <= rows <= after
            rounds += 1
        return rounds


def _row(id: int) -> pa.Table:
    return pa.table({"id": pa.array([id], pa.int64())})


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def server(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[ServerProcess]:
    database = request.getfixturevalue("database_url") if request.param == "postgres" else None
    with ServerProcess(tmp_path / "data", database=database) as server:
        yield server


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_three_formats_change_together_or_not_at_all_though_the_server_is_killed(server: ServerProcess) -> None:
    async with httpx.AsyncClient(trust_env=False, timeout=30) as http:
        trio = Trio(server, http)
        await trio.create_tables()
        work = [asyncio.create_task(trio.write()) for _ in range(WRITERS)]
        reader = asyncio.create_task(trio.read())
        until, kills = time.monotonic() + SECONDS, 0
        while time.monotonic() < until or kills < MIN_KILLS or len(trio.acknowledged) <= kills:
            await asyncio.sleep(1.0)
            await asyncio.to_thread(server.restart)
            kills += 1
        trio.stop = True
        await asyncio.gather(*work)
        assert await reader > 0
        latest = await trio.delta_head()
        assert latest >= max(trio.acknowledged)
        assert await trio.iceberg_snapshots() == list(range(1, latest + 1))
        assert await trio.lance_rows() == list(range(latest + 1))
        await _require_acknowledged(trio)


async def _require_acknowledged(trio: Trio) -> None:
    """Each acknowledged Delta version is published, with the bytes of the acknowledged transaction."""
    deadline = time.monotonic() + 60
    log = trio.delta.folder / "_delta_log"
    for version, name in trio.acknowledged.items():
        final = log / f"{version:020}.json"
        while not final.exists():
            assert time.monotonic() < deadline, "the server did not publish"
            await asyncio.sleep(0.1)
        assert final.read_bytes() == (log / "_staged_commits" / name).read_bytes()
