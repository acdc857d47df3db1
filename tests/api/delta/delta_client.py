"""A client of managed Delta tables with the same methods for each API family."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx

from moorage.testing import delta_writer as write
from moorage.testing.builders import START_MS

UNITY = "/api/2.1/unity-catalog"
V1 = f"{UNITY}/delta/v1"
CLASSIC = {"catalog_name": "lake", "schema_name": "sea"}
TABLES = f"{V1}/catalogs/lake/schemas/sea/tables"

Body = dict[str, Any]


def kebab(info: Body) -> Body:
    return {key.replace("_", "-"): value for key, value in info.items()}


def ok(answer: httpx.Response, status: int = 200) -> Any:
    assert answer.status_code == status, f"{answer.status_code}: {answer.text}"
    return answer.json() if answer.content else None


def error_name(answer: httpx.Response) -> str:
    body = answer.json()
    return str(body["error"]["type"] if "error" in body else body["error_code"])


class Staged:
    """A staging table and its files."""

    def __init__(self, name: str, id: str, location: str) -> None:
        self.name, self.id, self.location = name, id, location
        self.folder: Path = write.folder_of(location)

    def write_first(self, *more: Body, **changes: Any) -> None:
        """Write a 0.json that every family accepts. `changes` replace its protocol, metadata or info."""
        info = changes.get("info", write.commit_info(START_MS, "CREATE TABLE"))
        protocol = changes.get("protocol", write.protocol(changes.get("features", write.ALL_FEATURES)))
        properties = write.configuration(self.id, **changes.get("properties", {}))
        metadata = changes.get("metadata", write.metadata(properties, **changes.get("described", {})))
        write.write_first(self.folder, *(action for action in (info, protocol, metadata) if action), *more)

    def stage(self, version: int, *actions: Body, timestamp: int | None = None, name: str | None = None) -> Body:
        return write.stage(self.folder, version, timestamp or START_MS + version, *actions, name=name)


class DeltaClient:
    """Sends requests over any HTTP client. The schema `lake.sea` must exist."""

    def __init__(self, http: httpx.AsyncClient, family: str = "spec") -> None:
        self.http, self.family = http, family

    # --- the same in all families ------------------------------------------------------------

    async def furnish(self, **root: str) -> None:
        ok(await self.http.post(f"{UNITY}/catalogs", json={"name": "lake", **root}))
        ok(await self.http.post(f"{UNITY}/schemas", json={"name": "sea", "catalog_name": "lake"}))

    async def get_table(self, name: str = "t") -> httpx.Response:
        return await self.http.get(f"{UNITY}/tables/lake.sea.{name}")

    async def stage(self, name: str = "t", **changes: Any) -> Staged:
        answer = ok(await self.http.post(f"{UNITY}/staging-tables", json={"name": name, **CLASSIC, **changes}))
        return Staged(name, answer["id"], answer["staging_location"])

    async def make(self, name: str = "t", *actions: Body, **changes: Any) -> Staged:
        """Create a table at version 0."""
        staged = await self.stage(name)
        staged.write_first(*actions, **changes)
        ok(await self.create(staged))
        return staged

    # --- different in each family -----------------------------------------------------------

    async def create(self, staged: Staged, **changes: Any) -> httpx.Response:
        if self.family == "v1":
            return await self.http.post(TABLES, json=self.v1_body(staged, **changes))
        return await self.http.post(f"{UNITY}/tables", json=self.classic_body(staged, **changes))

    @staticmethod
    def classic_body(staged: Staged, **changes: Any) -> Body:
        properties = write.configuration(staged.id, **changes.pop("properties", {}))
        described = {"delta.lastUpdateVersion": "0", "delta.lastCommitTimestamp": str(START_MS)}
        body = {
            "name": staged.name,
            **CLASSIC,
            "table_type": "MANAGED",
            "data_source_format": "DELTA",
            "storage_location": staged.location,
            "properties": {**described, **properties},
        }
        return _without_absent({**body, **changes})

    @staticmethod
    def v1_body(staged: Staged, **changes: Any) -> Body:
        protocol = write.protocol(changes.pop("features", write.ALL_FEATURES))["protocol"]
        body = {
            "name": staged.name,
            "location": staged.location,
            "table-type": "MANAGED",
            "columns": {"type": "struct", "fields": list(write.COLUMNS)},
            "protocol": {
                "min-reader-version": protocol["minReaderVersion"],
                "min-writer-version": protocol["minWriterVersion"],
                "reader-features": protocol["readerFeatures"],
                "writer-features": protocol["writerFeatures"],
            },
            "properties": write.configuration(staged.id, **changes.pop("properties", {})),
            "last-commit-timestamp-ms": START_MS,
        }
        return _without_absent({**body, **changes})

    async def commit(
        self, table: Staged, info: Body | None = None, published: int | None = None, **changes: Any
    ) -> httpx.Response:
        if self.family == "v1":
            return await self._update(table, info, published, **changes)
        field = "latest_published_version" if self.family == "spec" else "latest_backfilled_version"
        body = {
            "table_id": table.id,
            "table_uri": table.location,
            "commit_info": info,
            field: published,
            **changes,
        }
        path = "/delta/commit" if self.family == "spec" else "/delta/preview/commits"
        return await self.http.post(UNITY + path, json={key: value for key, value in body.items() if value is not None})

    async def _update(self, table: Staged, info: Body | None, published: int | None, **changes: Any) -> httpx.Response:
        actions: list[Body] = list(changes.get("actions", ()))
        if info is not None:
            commit = {"action": "add-commit", "commit": kebab(info)}
            actions.append({**commit, "uniform": changes["uniform"]} if "uniform" in changes else commit)
        if published is not None:
            actions.append({"action": "set-latest-backfilled-version", "latest-published-version": published})
        return await self.update(table, *actions, etag=changes.get("etag"))

    async def update(self, table: Staged, *actions: Body, etag: str | None = None) -> httpx.Response:
        requirements: list[Body] = [{"type": "assert-table-uuid", "uuid": table.id}]
        if etag is not None:
            requirements.append({"type": "assert-etag", "etag": etag})
        return await self.http.post(
            f"{TABLES}/{table.name}", json={"requirements": requirements, "updates": list(actions)}
        )

    async def load(self, name: str = "t") -> httpx.Response:
        return await self.http.get(f"{TABLES}/{name}")

    async def get_commits(self, table: Staged, **wanted: Any) -> httpx.Response:
        body = {"table_id": table.id, "table_uri": table.location, **wanted}
        path = "/delta/preview/commits" if self.family == "preview" else "/delta/commits"
        return await self.http.request("GET", UNITY + path, content=json.dumps(body))

    async def announced(self, table: Staged, **wanted: Any) -> tuple[list[int], int]:
        """The versions that the server announces to a reader, in ascending order, and the latest version."""
        if self.family == "v1":
            answer = ok(await self.load(table.name))
            return sorted(info["version"] for info in answer["commits"]), answer["latest-table-version"]
        answer = ok(await self.get_commits(table, **wanted))
        return [info["version"] for info in answer["commits"]], answer["latest_table_version"]


def _without_absent(body: Body) -> Body:
    return {key: value for key, value in body.items() if value is not ...}
