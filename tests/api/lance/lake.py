"""A client of the Lance namespace for tests, with one method per request."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import httpx

from moorage.testing import lance_writer as write
from tests.api.house import done

LANCE = "/lance/v1"


class LanceClient:
    """Identifiers are strings, with dollars between the names."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http

    async def ask(self, path: str, body: Any = None, **query: Any) -> httpx.Response:
        return await self.http.post(LANCE + path, json=body, params=query or None)

    async def look(self, path: str, **query: Any) -> Any:
        return done(await self.http.get(LANCE + path, params=query or None))

    async def space(self, id: str, verb: str, /, **body: Any) -> httpx.Response:
        return await self.ask(f"/namespace/{quote(id, safe='')}/{verb}", body)

    async def table(self, id: str, verb: str, body: Any = None, **query: Any) -> httpx.Response:
        return await self.ask(f"/table/{quote(id, safe='')}/{verb}", body, **query)

    async def declare(self, id: str, **body: Any) -> str:
        """Declare a table; its location."""
        return str(done(await self.table(id, "declare", body))["location"])

    async def create(self, id: str, staged: dict[str, Any]) -> httpx.Response:
        return await self.table(id, "version/create", staged)

    async def grow(self, id: str, location: str, *versions: int, branch: str | None = None) -> None:
        """Commit these versions, one after another."""
        for version in versions:
            done(await self.create(id, write.stage(location, version, branch=branch)))

    async def versions(self, id: str, **query: Any) -> list[int]:
        """The numbers of the versions, the latest first."""
        listed = done(await self.table(id, "version/list", descending=True, **query))
        return [each["version"] for each in listed["versions"]]

    async def commit(self, *operations: Any, **query: Any) -> httpx.Response:
        return await self.ask("/table/batch-commit", {"operations": operations}, **query)


def declare(id: str, **more: Any) -> dict[str, Any]:
    return {"declare_table": {"id": id.split("$"), **more}}


def create(id: str, staged: dict[str, Any]) -> dict[str, Any]:
    return {"create_table_version": {"id": id.split("$"), **staged}}


def delete(id: str, *ranges: tuple[int, int], **more: Any) -> dict[str, Any]:
    listed = [{"start_version": start, "end_version": end} for start, end in ranges]
    return {"delete_table_versions": {"id": id.split("$"), "ranges": listed, **more}}


def deregister(id: str) -> dict[str, Any]:
    return {"deregister_table": {"id": id.split("$")}}


def refused(answer: httpx.Response, status: int, code: int, *words: str) -> str:
    """Check the status and code of an error response and that it contains these words; its detail and message."""
    assert answer.status_code == status, f"{answer.status_code}: {answer.text}"
    error = answer.json()
    assert error["code"] == code, error
    assert error["instance"] == answer.headers["x-request-id"]
    text = f"{error['detail']}: {error['error']}"
    for word in words:
        assert word in text, text
    return text
