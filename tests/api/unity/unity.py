"""A client of the Unity API, in process."""

from __future__ import annotations

from typing import Any

import httpx

from tests.api.house import Asking, done

PREFIX = "/api/2.1/unity-catalog"


class Unity(Asking):
    prefix = PREFIX

    async def schema(self) -> str:
        """Create the schema `lake.s` and return its full name."""
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


def refused(answer: httpx.Response, status: int, code: str, reason: str | None = None) -> str:
    """Expect an error with this status, code and reason. Return its message."""
    assert answer.status_code == status, f"{answer.status_code}: {answer.text}"
    body = answer.json()
    assert body["error_code"] == code, body
    assert body["details"] == [{"@type": "google.rpc.ErrorInfo", "reason": reason or code}], body
    return str(body["message"])


def invalid(answer: httpx.Response) -> str:
    return refused(answer, 400, "INVALID_PARAMETER_VALUE", "INVALID_ARGUMENT")
