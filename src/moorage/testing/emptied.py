"""A PostgreSQL database for many ledgers, one after another: to make one takes longer than most tests."""

from __future__ import annotations

import asyncpg

_EMPTY_ALL = """
do $$ declare name text; begin
    for name in select tablename from pg_tables where schemaname = 'public' and tablename <> 'schema_version' loop
        execute format('delete from %I', name);
    end loop;
end $$"""


async def emptied(url: str) -> str:
    """The same database without any row of a ledger: the next to open it starts from nothing."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(_EMPTY_ALL)
    finally:
        await connection.close()
    return url
