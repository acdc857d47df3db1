"""Rows, branches and overwritten Lance tables on PostgreSQL, where an entry is one function call."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from moorage.core.entries import Commit, Create, Drop, Erase, Update
from moorage.ledger.postgres import PostgresLedger
from moorage.testing.builders import Clock
from tests.api.house import House, done, open_house
from tests.datasets.lines import stream_of

pytestmark = pytest.mark.postgres

THREE = stream_of({"id": [1, 2, 3]})


@pytest.fixture
async def house(tmp_path: Path, database_url: str) -> AsyncIterator[House]:
    ledger = await PostgresLedger.open(database_url, clock_ms=Clock())
    async with open_house(tmp_path / "data", ledger=ledger) as house:
        await house.console.make("lake")
        yield house


async def test_tables_can_be_created_overwritten_and_branched_on_postgres(house: House) -> None:
    async def ask(what: str, body: Any = None, key: str | None = None, **query: Any) -> Any:
        headers = {} if key is None else {"idempotency-key": key}
        given: dict[str, Any] = {"content": body} if isinstance(body, bytes) else {"json": body or {}}
        path = f"/lance/v1/table/lake$t/{what}"
        return done(await house.console.http.post(path, params=query, headers=headers, **given))

    first = await ask("create", THREE, key="k")
    second = await ask("create", stream_of({"other": ["a"]}), mode="overwrite")
    assert second["location"] != first["location"]
    made = (await house.ledger.entries(int(second["transaction_id"]) - 1, limit=1))[0].body.changes
    assert [type(change) for change in made] == [Drop, Erase, Create, Update, Commit]
    assert await ask("create", THREE, key="k") == first
    assert await ask("count_rows") == 1
    inserted = await ask("insert", stream_of({"other": ["b"]}), key="i")
    assert await ask("insert", stream_of({"other": ["b"]}), key="i") == inserted
    for _ in range(2):
        await ask("branches/create", {"name": "dev"})
        assert (await ask("insert", stream_of({"other": ["c"]}), branch="dev"))["version"] == 3
        assert await ask("count_rows", {"branch": "dev"}) == 3
        await ask("branches/delete", {"name": "dev"})
    updated = await ask("update", {"updates": [["other", "'d'"]], "properties": {"seen": "yes"}})
    assert (updated["updated_rows"], updated["version"]) == (2, 3)
    assert (await ask("describe"))["properties"] == {"seen": "yes"}
