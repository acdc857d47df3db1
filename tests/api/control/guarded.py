"""The catalog in this process with authentication on, and shortcuts for its callers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
from msgspec.structs import force_setattr

from moorage.access.granted import GrantedAccess
from moorage.ledger.port import Ledger
from moorage.usecases.identity.administrator import ensure_administrator
from tests.api.house import House, done, open_house

CONTROL = "/api/1.0/unity-control"
UNITY = "/api/2.1/unity-catalog"


class Guarded:
    """A house whose requests carry tokens. `admin` is the token of the first administrator."""

    def __init__(self, house: House, admin: str) -> None:
        self.house = house
        self.ledger: Ledger = house.ledger
        self.admin = admin
        self.ids: dict[str, str] = {}

    async def ask(
        self, token: str | None, verb: str, path: str, body: Any = None, *, headers: dict[str, str] | None = None
    ) -> httpx.Response:
        return await self.house.console.http.request(
            verb,
            path,
            content=None if body is None else msgspec.json.encode(body),
            headers={**({"authorization": f"Bearer {token}"} if token is not None else {}), **(headers or {})},
        )

    async def run(self, verb: str, path: str, body: Any = None, *, status: int = 200) -> Any:
        """A request of the administrator, which must succeed."""
        answer = await self.ask(self.admin, verb, path, body)
        return done(answer, status) if status != 204 else answer.status_code

    async def user(self, name: str, *groups: str, **token: Any) -> str:
        """Create a user in these groups, and return a token of it."""
        made = await self.run("POST", f"{CONTROL}/scim2/Users", {"userName": name}, status=201)
        self.ids[name] = made["id"]
        for group in groups:
            await self.join(group, name)
        return await self.token(name, **token)

    async def token(self, name: str, **given: Any) -> str:
        made = await self.run("POST", f"{CONTROL}/tokens", {"principal": name, **given}, status=201)
        return str(made["token"])

    async def group(self, name: str, *parents: str) -> None:
        made = await self.run("POST", f"{CONTROL}/scim2/Groups", {"displayName": name}, status=201)
        self.ids[name] = made["id"]
        for parent in parents:
            await self.join(parent, name)

    async def join(self, group: str, member: str) -> None:
        await self._members(group, "add", member)

    async def leave(self, group: str, member: str) -> None:
        await self._members(group, "remove", member)

    async def _members(self, group: str, op: str, member: str) -> None:
        operation = {"op": op, "path": "members", "value": [{"value": self.ids[member]}]}
        await self.run("PATCH", f"{CONTROL}/scim2/Groups/{self.ids[group]}", {"Operations": [operation]})

    async def status(self, token: str | None, verb: str, path: str, body: Any = None) -> int:
        return (await self.ask(token, verb, path, body)).status_code


@asynccontextmanager
async def open_guarded(data: Path, **given: Any) -> AsyncIterator[Guarded]:
    async with open_house(data, **given) as house:
        token = await ensure_administrator(house.ledger)
        assert token is not None
        force_setattr(house.ports, "access", GrantedAccess(house.ledger, house.ports.page_secret, now_ms=house.clock))
        yield Guarded(house, token)
