"""What authentication and grants cost: the same requests of equal catalogs, with authentication on and off."""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from statistics import median
from typing import NamedTuple

import httpx

from bench.load import Load, Server, serving
from bench.report import Row
from moorage.server.compose import open_ledger
from moorage.server.settings import Settings
from moorage.testing import builders as make
from moorage.testing.crowd import add_grants, add_principals
from moorage.testing.postgres import PostgresServer
from moorage.usecases.identity.administrator import ensure_administrator

_TABLES = 100
_CALLERS = 16
_ROUNDS = 9
_NAMESPACE = "/iceberg/v1/bench/namespaces"
_SCHEMA = {"type": "struct", "fields": [{"id": 1, "name": "id", "required": True, "type": "long"}]}
_LIST = "/api/2.1/unity-catalog/tables?catalog_name=bench&schema_name=sea&max_results=100"

_LOG_ENTRIES = 100
"""The default of `write.metadata.previous-versions-max`."""

_NOT_COMMITTED_TO = "t99"
"""Commits make the metadata of a table longer, and the later run would read more than the earlier one."""

_COMMIT = """
local n = 0
request = function()
  n = n + 1
  local path = "/iceberg/v1/bench/namespaces/sea/tables/t" .. (n % 99)
  local body = '{"requirements":[],"updates":[{"action":"set-properties","updates":{"v":"' .. n .. '"}}]}'
  return wrk.format("POST", path, nil, body)
end
"""


class Tokens(NamedTuple):
    """Of a user who may read and write all tables, and of one who may see every second one."""

    all: str
    half: str


class Costs(NamedTuple):
    """The CPU of the server per request, in µs."""

    read: float
    commit: float
    list: float
    list_half: float


def access_rows(folder: Path, postgres: PostgresServer | None = None) -> list[Row]:
    """Two servers, without and with authentication, which are measured in turns: so both meet the same machine."""
    folder.mkdir()
    settings = {auth: _settings(folder / auth, postgres) for auth in ("off", "on")}
    tokens = {auth: _prepare(each, postgres) for auth, each in settings.items()}
    runs: dict[str, list[Costs]] = {"off": [], "on": []}
    with ExitStack() as stack:
        servers = {
            auth: stack.enter_context(_serving(each, postgres, "--auth", auth)) for auth, each in settings.items()
        }
        for number in range(_ROUNDS + 1):
            for auth in sorted(servers, reverse=bool(number % 2)):
                runs[auth].append(_measure(servers[auth], folder, tokens[auth]))
    # The first round fills the caches.
    off, on = (Costs(*map(median, zip(*costs[1:], strict=True))) for costs in (runs["off"], runs["on"]))
    read, commit, half = on.read / off.read, on.commit / off.commit, on.list_half / on.list
    return [
        Row("read, without authentication", f"{off.read:6.0f} µs"),
        Row("read, with authentication", f"{on.read:6.0f} µs  {read:.2f} ×", "≤ 1.25 ×", read <= 1.25),
        Row("commit, without authentication", f"{off.commit:6.0f} µs"),
        Row("commit, with authentication", f"{on.commit:6.0f} µs  {commit:.2f} ×", "≤ 1.25 ×", commit <= 1.25),
        Row("list of 100 tables, all visible", f"{on.list:6.0f} µs"),
        Row("list of 100 tables, half visible", f"{on.list_half:6.0f} µs  {half:.2f} ×", "≤ 2 ×", half <= 2),
    ]


def _settings(data: Path, postgres: PostgresServer | None) -> Settings:
    return Settings(data=data, database=None if postgres is None else postgres.new_database(f"access_{data.name}"))


def _serving(settings: Settings, postgres: PostgresServer | None, *arguments: str) -> AbstractContextManager[Server]:
    database = () if settings.database is None else ("--database", settings.database)
    beside = None if postgres is None else postgres.pid
    return serving(settings.data, *database, *arguments, beside=beside)


def _prepare(settings: Settings, postgres: PostgresServer | None) -> Tokens:
    settings.data.mkdir()
    with _serving(settings, postgres) as server:
        _create_tables(server.url)
        _fill_logs(server, settings.data)
    return asyncio.run(_fill(settings))


def _create_tables(url: str) -> None:
    with httpx.Client(base_url=url, timeout=30, trust_env=False) as http:
        http.post("/api/moorage/v1/catalogs", json={"name": "bench"}).raise_for_status()
        http.post(_NAMESPACE, json={"namespace": ["sea"]}).raise_for_status()
        for number in range(_TABLES):
            table = {"name": f"t{number}", "schema": _SCHEMA}
            http.post(f"{_NAMESPACE}/sea/tables", json=table).raise_for_status()


def _fill_logs(server: Server, folder: Path) -> None:
    """Commit until the metadata of every table lists as many former files as it ever does.

    Until then each commit costs more than the one before, and so the later runs more than the earlier ones.
    """
    script = folder / "script.lua"
    script.write_text(_COMMIT, encoding="ascii")
    while True:
        server.run(_CALLERS, script=script, seconds=2)
        table = httpx.get(f"{server.url}{_NAMESPACE}/sea/tables/t0", trust_env=False).raise_for_status().json()
        if len(table["metadata"]["metadata-log"]) >= _LOG_ENTRIES:
            return


async def _fill(settings: Settings) -> Tokens:
    """10,000 users in 1,000 nested groups, and 1,000 of them with grants on each of 100 tables."""
    ledger = await open_ledger(settings)
    tokens = await add_principals(ledger, [777, 4777])
    tables = [(await ledger.walk(make.path_to("bench", "sea", f"t{n}"))).chain for n in range(_TABLES)]
    await add_grants(ledger, tables[0][0].id, [table[-1].id for table in tables])
    await ensure_administrator(ledger)  # otherwise the server would print a token
    await ledger.close()
    return Tokens(*tokens)


def _measure(server: Server, folder: Path, tokens: Tokens) -> Costs:
    def run(path: str, token: str, script: str = "") -> Load:
        file = folder / "script.lua"
        file.write_text(f'wrk.headers["Authorization"] = "Bearer {token}"\n{script}', encoding="ascii")
        load = server.run(_CALLERS, path, script=file, seconds=1)
        if load.failed:
            raise RuntimeError(f"{load.failed} requests to {path or 'commit'} failed")
        return load

    return Costs(
        read=run(f"{_NAMESPACE}/sea/tables/{_NOT_COMMITTED_TO}", tokens.all).cpu_us,
        commit=run("", tokens.all, _COMMIT).cpu_us,
        list=run(_LIST, tokens.all).cpu_us,
        list_half=run(_LIST, tokens.half).cpu_us,
    )
