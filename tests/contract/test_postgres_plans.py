"""Plans are cached for the life of a connection, so a plan made for small tables must also suit large ones."""

import asyncio
from typing import Any

import pytest

from moorage.core.entries import Draft, HeadIs, Live, encode_body
from moorage.core.securables import MAIN
from moorage.ledger.postgres import PostgresLedger
from moorage.ledger.postgres.arguments import Written, call
from moorage.ledger.postgres.connections import connect
from moorage.ledger.postgres.queries import CHILDREN, DUE_FOR_PURGE, LINEAGES, walk_sql, walks_sql
from moorage.testing import builders as make

pytestmark = pytest.mark.postgres

READ = "select coalesce(sum(coalesce(idx_tup_fetch, 0) + coalesce(seq_tup_read, 0)), 0) from pg_stat_xact_user_tables"
MANY_TABLES = 400


def append_call(draft: Draft) -> tuple[Any, ...]:
    return tuple(call([Written(draft, encode_body(draft))], None, again=False))


async def test_no_statement_reads_more_rows_as_the_tables_grow(database_url: str) -> None:
    ledger = await PostgresLedger.open(database_url)
    connection = await connect(database_url)
    try:
        lake = await make.lake(ledger)
        space, table = lake.namespace, lake.table
        new_table = make.table(space, "new_table")
        statements = {
            "walk": (walk_sql(3), ledger.root, "catalog", "lake", "namespace", "sea", "relation", "t"),
            "walks": (walks_sql(3), ledger.root, ["catalog"], ["lake"], ["namespace"], ["sea"], ["relation"], ["t"]),
            "lineage": (LINEAGES, [table]),
            "page": (CHILDREN, space, "relation", 1, "", None),
            "due": (DUE_FOR_PURGE, None, 0, "", 10),
            "create": append_call(make.draft(new_table, expects=[Live(space), make.name_free(new_table)])),
            "grant": append_call(make.draft(make.set_grants(table, ann=["SELECT"]))),
            "commit": append_call(make.draft(make.commit(table, 1), expects=[HeadIs(table, MAIN, 0)])),
            "update": append_call(make.draft(make.update(table, comment="new"), expects=[Live(table)])),
        }

        async def rows_read() -> dict[str, int]:
            read = {}
            for name, (sql, *args) in statements.items():
                transaction = connection.transaction()
                await transaction.start()
                before = await connection.fetchval(READ)
                await connection.fetch(sql, *args)
                read[name] = await connection.fetchval(READ) - before
                await transaction.rollback()
            return read

        few = await rows_read()
        others = [make.table(space, f"other{n}") for n in range(MANY_TABLES)]
        await asyncio.gather(*(ledger.append(make.draft(one, make.commit(one.id, 0))) for one in others))
        many = await rows_read()
        assert {name: read for name, read in many.items() if read > few[name] + 5} == {}
    finally:
        await connection.close()
        await ledger.close()
