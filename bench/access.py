"""What authentication and grants cost: the same requests of the same catalog, with authentication on and off."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import NamedTuple

import httpx

from bench.load import Load, Server, serving
from bench.report import Row
from moorage import fresh
from moorage.core.entries import Change
from moorage.core.principals import Principal, TokenDetails, doc_of
from moorage.core.securables import Kind
from moorage.core.tokens import digest_of, new_token
from moorage.ledger.sqlite import SqliteLedger
from moorage.testing import builders as make
from moorage.usecases.identity.administrator import ensure_administrator

_USERS, _GROUPS, _TABLES, _HOLDERS = 10_000, 1_000, 100, 1_000
_CALLERS = 16
_ROUNDS = 3
_SLICE = 900
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


def access_rows(folder: Path) -> list[Row]:
    folder.mkdir()
    data = folder / "data"
    with serving(data) as server:
        _create_tables(server.url)
        _fill_logs(server, folder)
    tokens = asyncio.run(_fill(data))
    runs: dict[str, list[Costs]] = {"off": [], "on": []}
    for _ in range(_ROUNDS):
        for auth, costs in runs.items():
            with serving(data, "--auth", auth) as server:
                costs.append(_measure(server, folder, tokens))
    off, on = (Costs(*map(min, zip(*costs, strict=True))) for costs in runs.values())
    read, commit, half = on.read / off.read, on.commit / off.commit, on.list_half / on.list
    return [
        Row("read, without authentication", f"{off.read:6.0f} µs"),
        Row("read, with authentication", f"{on.read:6.0f} µs  {read:.2f} ×", "≤ 1.25 ×", read <= 1.25),
        Row("commit, without authentication", f"{off.commit:6.0f} µs"),
        Row("commit, with authentication", f"{on.commit:6.0f} µs  {commit:.2f} ×", "≤ 1.25 ×", commit <= 1.25),
        Row("list of 100 tables, all visible", f"{on.list:6.0f} µs"),
        Row("list of 100 tables, half visible", f"{on.list_half:6.0f} µs  {half:.2f} ×", "≤ 2 ×", half <= 2),
    ]


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


async def _fill(data: Path) -> Tokens:
    """10,000 users in 1,000 nested groups, and 1,000 of them with grants on each of 100 tables."""
    ledger = await SqliteLedger.open(data)
    groups = [
        make.create(Kind.GROUP, ledger.root, f"g{n}", doc=doc_of(Principal(groups=(f"g{n // 2}",) if n else ())))
        for n in range(_GROUPS)
    ]
    users = [
        make.create(Kind.USER, ledger.root, f"u{n}", doc=doc_of(Principal(groups=(f"g{n % _GROUPS}",))))
        for n in range(_USERS)
    ]
    created: list[Change] = [*groups, *users]
    tokens = []
    for user in (users[777], users[4777]):
        id = fresh.securable_id()
        tokens.append(new_token(id, fresh.secret()))
        created.append(
            make.create(Kind.TOKEN, user.id, id, id=id, doc=doc_of(TokenDetails(digest=digest_of(tokens[-1]))))
        )
    for start in range(0, len(created), _SLICE):
        await make.add(ledger, *created[start : start + _SLICE])
    namespace = (await ledger.walk(make.path_to("bench", "sea"))).chain
    everyone = {"account users": ["USE CATALOG", "USE SCHEMA"]}
    await make.add(ledger, make.set_grants(namespace[0].id, **everyone))
    for number in range(_TABLES):
        table = (await ledger.walk(make.path_to("bench", "sea", f"t{number}"))).chain[-1]
        holders = {f"u{n}": ["SELECT", "MODIFY"] for n in range(_HOLDERS)}
        half = {"u4777": ["SELECT"]} if number % 2 else {}
        await make.add(ledger, make.set_grants(table.id, **holders, **half))
    await ensure_administrator(ledger)  # otherwise the server would print a token
    await ledger.close()
    return Tokens(*tokens)


def _measure(server: Server, folder: Path, tokens: Tokens) -> Costs:
    def run(path: str, token: str, script: str = "") -> Load:
        file = folder / "script.lua"
        file.write_text(f'wrk.headers["Authorization"] = "Bearer {token}"\n{script}', encoding="ascii")
        load = server.run(_CALLERS, path, script=file, seconds=3)
        if load.failed:
            raise RuntimeError(f"{load.failed} requests to {path or 'commit'} failed")
        return load

    return Costs(
        read=run(f"{_NAMESPACE}/sea/tables/{_NOT_COMMITTED_TO}", tokens.all).cpu_us,
        commit=run("", tokens.all, _COMMIT).cpu_us,
        list=run(_LIST, tokens.all).cpu_us,
        list_half=run(_LIST, tokens.half).cpu_us,
    )
