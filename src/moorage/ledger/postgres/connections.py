"""Connections to the database: settings that correctness depends on, and migrations."""

from __future__ import annotations

import logging
from typing import Final, NamedTuple

import asyncpg
from asyncpg.connect_utils import SessionAttribute

from moorage.core.errors import InvalidInput, Unavailable
from moorage.ledger.faults import reach
from moorage.ledger.migrations import migrations_of, newest, require_readable

log = logging.getLogger(__name__)

_MIGRATION_LOCK: Final = 7667200
_CONNECT_S: Final = 5.0

_SETTINGS: Final = {
    "application_name": "moorage",
    "jit": "off",
    # Firewalls drop connections that are idle for minutes, and the database should detect a server that vanished.
    "tcp_keepalives_idle": "60",
    # An open snapshot keeps old rows of `head` alive and makes every append slower.
    "idle_in_transaction_session_timeout": "10s",
    # Plans are cached for the life of a connection. One made while a table was small would do full scans
    # for hours after the table has grown. Every statement here has an index to use.
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    # A custom plan knows the length of an array argument and so looks cheaper than the generic one.
    # The planner would therefore plan every statement of every append again.
    "plan_cache_mode": "force_generic_plan",
}

REPLICA: Final = "the database is a replica: give Moorage the address of the primary"
POOLED: Final = (
    "this is the address of a connection pooler, such as PgBouncer: Moorage keeps a few sessions of its own and "
    "relies on their settings; give it the address of the database itself"
)

LOST: Final = (OSError, asyncpg.PostgresConnectionError, asyncpg.InterfaceError, asyncpg.InternalClientError)
"""What asyncpg raises when a connection is lost. These errors can also have other causes (see is_lost)."""

_LOST_SQLSTATES: Final = ("08", "57P")


def is_lost(error: BaseException, connection: asyncpg.Connection[asyncpg.Record] | None) -> bool:
    """Whether the error means that the connection is lost. The server sends its last error before it closes one."""
    if isinstance(error, asyncpg.PostgresError):
        return str(error.sqlstate).startswith(_LOST_SQLSTATES) or getattr(error, "severity", "") in ("FATAL", "PANIC")
    return isinstance(error, OSError) or connection is None or connection.is_closed()


async def connect(url: str, *, within_s: float = _CONNECT_S, **settings: str) -> asyncpg.Connection[asyncpg.Record]:
    """Open a session on the primary. With several hosts in the URL, the others may be replicas that lag behind."""
    return await asyncpg.connect(
        url, timeout=within_s, server_settings=_SETTINGS | settings, target_session_attrs=SessionAttribute.primary
    )


async def require_suitable(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    """Refuse a database that could lose acknowledged commits, is not UTF-8, is read-only, or is behind a pooler."""
    if await connection.fetchval("select pg_backend_pid()") != connection.get_server_pid():
        raise InvalidInput(POOLED, field="database")
    for setting in ("fsync", "synchronous_commit"):
        if await connection.fetchval(f"show {setting}") == "off":
            raise InvalidInput(
                f"the database runs with {setting}=off and could lose acknowledged commits: turn it on",
                field="database",
            )
    if await connection.fetchval("show server_encoding") != "UTF8":
        raise InvalidInput("the database is not encoded in UTF8: create one that is", field="database")
    if await connection.fetchval("select pg_is_in_recovery()"):
        raise InvalidInput(REPLICA, field="database")
    if await connection.fetchval("show transaction_read_only") == "on":
        raise InvalidInput("the database is read-only: turn default_transaction_read_only off", field="database")


async def migrate(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    """Bring the schema up to date. Each step is atomic, and servers that start together take turns.

    If the schema is up to date, a role without the right to change it is enough.
    """
    if await schema_version(connection) >= newest("moorage.ledger.postgres"):
        return
    await connection.execute("select pg_advisory_lock($1)", _MIGRATION_LOCK)
    try:
        await connection.execute(
            "create table if not exists schema_version "
            "(version int primary key, oldest_code int not null, applied_at timestamptz not null default now())"
        )
        at = await schema_version(connection)
        for step in migrations_of("moorage.ledger.postgres"):
            if step.version <= at:
                continue
            async with connection.transaction():
                reach("migrate.begun")
                await connection.execute(step.sql)
                await connection.execute(
                    "insert into schema_version (version, oldest_code) values ($1, $2)", step.version, step.oldest_code
                )
                reach("migrate.applied")
            reach("migrate.committed")
            log.info("migrated the ledger's schema to %s_%s", step.version, step.name)
    finally:
        if not connection.is_closed():
            await connection.execute("select pg_advisory_unlock($1)", _MIGRATION_LOCK)


async def require_migrated(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    """Refuse a schema that is older than this code needs or too new for it."""
    wanted = newest("moorage.ledger.postgres")
    if await schema_version(connection) < wanted:
        raise Unavailable(f"the database's schema is older than {wanted}: run `moorage migrate` first")


async def schema_version(connection: asyncpg.Connection[asyncpg.Record]) -> int:
    """The schema version, 0 if there is none. Unavailable if it is too new for this code."""
    if await connection.fetchval("select to_regclass('schema_version')") is None:
        return 0
    row = await connection.fetchrow(
        "select coalesce(max(version), 0), coalesce(max(oldest_code), 0) from schema_version"
    )
    assert row is not None  # noqa: S101 - an aggregate has one row
    require_readable(row[1])
    return int(row[0])


class Backend(NamedTuple):
    """One server process of the database. The pid alone is not unique, because pids are reused."""

    pid: int
    since: object


async def backend_of(connection: asyncpg.Connection[asyncpg.Record]) -> Backend:
    pid = connection.get_server_pid()
    since = await connection.fetchval("select backend_start from pg_stat_activity where pid = pg_backend_pid()")
    return Backend(pid, since)


async def terminate_backend(connection: asyncpg.Connection[asyncpg.Record], old: Backend) -> None:
    """Terminate a lost session and wait until it has ended. Until then it could still commit."""
    running = "from pg_stat_activity where pid = $1 and backend_start = $2"
    while await connection.fetchval(f"select count(pg_terminate_backend(pid)) {running}", *old):
        await connection.fetchval("select pg_sleep(0.02)")
