"""Reuse of one PostgreSQL database for many ledgers, because creating one takes longer than most tests."""

from __future__ import annotations

import asyncpg

_EMPTY_ALL = """
do $$ declare name text; begin
    for name in select tablename from pg_tables where schemaname = 'public' and tablename <> 'schema_version' loop
        execute format('delete from %I', name);
    end loop;
end $$"""


async def emptied(url: str) -> str:
    """Delete all rows of the ledger in a database, and return its URL. The next ledger starts empty."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(_EMPTY_ALL)
    finally:
        await connection.close()
    return url
