"""Short words for requests to the Unity API, in process or over a socket."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import msgspec

PREFIX = "/api/2.1/unity-catalog"


class Unity:
    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http

    async def ask(
        self, verb: str, path: str, body: Any = None, *, key: str | None = None, caller: str | None = None, **query: Any
    ) -> httpx.Response:
        headers = {"idempotency-key": key, "x-caller": caller}
        return await self.http.request(
            verb,
            PREFIX + path,
            content=None if body is None else msgspec.json.encode(body),
            params=query or None,
            headers={name: value for name, value in headers.items() if value is not None},
        )

    async def get(self, path: str, **query: Any) -> httpx.Response:
        return await self.ask("GET", path, **query)

    async def post(self, path: str, body: Any = None, **given: Any) -> httpx.Response:
        return await self.ask("POST", path, body, **given)

    async def patch(self, path: str, body: Any, **given: Any) -> httpx.Response:
        return await self.ask("PATCH", path, body, **given)

    async def delete(self, path: str, **given: Any) -> httpx.Response:
        return await self.ask("DELETE", path, **given)

    async def schema(self) -> str:
        """The schema `lake.s`; its full name."""
        done(await self.post("/catalogs", {"name": "lake"}))
        done(await self.post("/schemas", {"name": "s", "catalog_name": "lake"}))
        return "lake.s"

    async def external(self, name: str, location: str | None = None, **given: Any) -> dict[str, Any]:
        return dict(done(await self.post("/tables", external(name, location, **given))))

    async def names(self, what: str, **query: Any) -> list[str]:
        page = done(await self.get(f"/{what}", **query))
        return [item["name"] for item in page[{"models": "registered_models"}.get(what, what)]]


IN_S = {"catalog_name": "lake", "schema_name": "s"}


def external(name: str, location: str | None = None, **given: Any) -> dict[str, Any]:
    """The request that registers an external Delta table in lake.s."""
    return {
        "name": name,
        **IN_S,
        "table_type": "EXTERNAL",
        "data_source_format": "DELTA",
        "columns": [],
        "storage_location": location or f"file:///lakes/{name}",
        **given,
    }


def done(answer: httpx.Response) -> Any:
    """The body of a success; a refusal fails with all that the server said."""
    assert answer.status_code == 200, f"{answer.status_code}: {answer.text}"
    return answer.json()


def refused(answer: httpx.Response, status: int, code: str, reason: str | None = None) -> str:
    """The message of the refusal, which must be this one."""
    assert answer.status_code == status, f"{answer.status_code}: {answer.text}"
    body = answer.json()
    assert body["error_code"] == code, body
    assert body["details"] == [{"@type": "google.rpc.ErrorInfo", "reason": reason or code}], body
    return str(body["message"])


def invalid(answer: httpx.Response) -> str:
    return refused(answer, 400, "INVALID_PARAMETER_VALUE", "INVALID_ARGUMENT")


@asynccontextmanager
async def unity_at(url: str) -> AsyncIterator[Unity]:
    """The Unity API of a server in another process."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=64)
    async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=30, limits=limits) as http:
        yield Unity(http)
