"""The database terminates sessions while two servers write: every draft is answered and appended once."""

import asyncio
import os
import random

import asyncpg
import pytest

from moorage.core.entries import HeadIs
from moorage.core.ids import SecurableId
from moorage.core.securables import MAIN
from moorage.ledger.postgres import PostgresLedger
from moorage.testing import builders as make
from tests.crash.children import SOAK, require_gapless

TERMINATIONS = 500 if SOAK else 15
OTHERS = "select pid from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_randomly_terminated_sessions_lose_and_duplicate_nothing(database_url: str) -> None:
    chance = random.Random(os.environ.get("MOORAGE_SEED", "moorage"))
    servers = [await PostgresLedger.open(database_url), await PostgresLedger.open(database_url)]
    lake = await make.lake(servers[0], *[f"t{n}" for n in range(8)])
    receipts: list[tuple[str, int]] = []
    done = asyncio.Event()

    async def write(server: PostgresLedger, table: SecurableId) -> int:
        version = 0
        while not done.is_set():
            draft = make.draft(make.commit(table, version + 1), expects=[HeadIs(table, MAIN, version)])
            receipt = await server.append(draft)
            assert receipt.seq is not None
            receipts.append((draft.id, receipt.seq))
            version += 1
        return version

    writers = [asyncio.create_task(write(servers[n % 2], table)) for n, table in enumerate(lake.tables)]
    operator = await asyncpg.connect(database_url)
    for _ in range(TERMINATIONS):
        await asyncio.sleep(chance.random() / 20)
        sessions = [pid for (pid,) in await operator.fetch(OTHERS)]
        for pid in chance.sample(sessions, min(len(sessions), chance.choice([1, 2, 20]))):
            await operator.execute("select pg_terminate_backend($1)", pid)
    done.set()
    versions = await asyncio.gather(*writers)
    await operator.close()

    assert await require_gapless(servers[0], receipts) == 2 + len(receipts) == 2 + sum(versions)
    heads = [await servers[1].head(table, MAIN) for table in lake.tables]
    assert [head and head.version for head in heads] == versions
    for server in servers:
        await server.close()
