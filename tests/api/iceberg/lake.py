"""Helpers that send requests to the Iceberg API."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import msgspec

from moorage.api.iceberg.bodies import EXAMPLE_SCHEMA
from tests.api.house import House

V1 = "/iceberg/v1"
SPACE = ("sales",)
PERSISTED = {"write.parquet.compression-codec": "zstd"}
"""The properties of every new table."""


class Lake:
    """The catalog `lake` with the namespace `sales`, as an Iceberg client sees it."""

    def __init__(self, house: House, data: Path, **headers: str) -> None:
        self.house = house
        self.headers = headers
        self.managed = data / "managed"
        self.prefix = "lake"

    async def ask(
        self, verb: str, path: str, body: Any = None, *, key: str | None = None, tag: str | None = None, **query: Any
    ) -> httpx.Response:
        headers = {"idempotency-key": key, "if-none-match": tag, **self.headers}
        return await self.house.console.http.request(
            verb,
            f"{V1}/{self.prefix}{path}",
            content=None if body is None else msgspec.json.encode(body),
            params=query or None,
            headers={name: value for name, value in headers.items() if value is not None},
        )

    async def create_space(self, *levels: str, **given: Any) -> httpx.Response:
        return await self.ask("POST", "/namespaces", {"namespace": levels, **given})

    async def create(
        self, name: str, *, key: str | None = None, space: tuple[str, ...] = SPACE, stage: bool = False, **given: Any
    ) -> httpx.Response:
        body = {"name": name, "schema": EXAMPLE_SCHEMA, "stage-create": stage, **given}
        return await self.ask("POST", f"{to_space(*space)}/tables", body, key=key)

    async def load(self, name: str, **given: Any) -> httpx.Response:
        return await self.ask("GET", to_table(name), **given)

    async def commit(self, name: str, *updates: Any, requires: Any = (), key: str | None = None) -> httpx.Response:
        return await self.ask("POST", to_table(name), {"requirements": requires, "updates": updates}, key=key)

    async def metadata(self, name: str) -> dict[str, Any]:
        answer = await self.load(name)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()["metadata"]
        return found

    @staticmethod
    def filed(location: str) -> Any:
        """The content of the metadata file at a location."""
        return msgspec.json.decode(Path(location.removeprefix("file://")).read_bytes())

    def metadata_files(self) -> set[str]:
        return {str(path.relative_to(self.managed)) for path in self.managed.rglob("*.metadata.json")}


def to_space(*levels: str) -> str:
    return f"/namespaces/{quote(chr(0x1F).join(levels), safe='')}"


def to_table(name: str, *levels: str) -> str:
    return f"{to_space(*(levels or SPACE))}/tables/{quote(name, safe='')}"


def refused(answer: httpx.Response, status: int, name: str, words: str = "") -> None:
    """Assert that a response is an error of the specification's error model, without other properties."""
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert (error["type"], error["code"], sorted(error)) == (name, status, ["code", "message", "type"])
    assert words in error["message"]


def set_property(name: str, value: str = "1") -> dict[str, Any]:
    return {"action": "set-properties", "updates": {name: value}}
