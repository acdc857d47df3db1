"""Tables whose data files exist only in manifests: planning reads nothing else."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import httpx

from moorage.testing.manifest_writer import entry, manifest, manifest_list
from tests.api.iceberg.lake import Lake, to_table

BY_CITY = {"fields": [{"source-id": 2, "name": "city", "transform": "identity"}]}
CITY = [{"name": "city", "field-id": 1000, "type": ["null", "string"], "default": None}]


class Planned:
    """One table of a lake, with snapshots that the test writes."""

    def __init__(self, lake: Lake, name: str, metadata: dict[str, Any]) -> None:
        self.lake = lake
        self.name = name
        self.metadata = metadata
        self.lines: list[dict[str, Any]] = []
        self.snapshots: list[int] = []

    @property
    def folder(self) -> Path:
        return Path(self.metadata["location"].removeprefix("file://")) / "metadata"

    def line(self, *entries: Any, deletes: bool = False, partition: Any = None, **given: Any) -> dict[str, Any]:
        """Write a manifest with these files, and return its line for the manifest list."""
        by = CITY if partition is None and self.metadata["partition-specs"][0]["fields"] else partition or ()
        number = len(list(self.folder.glob("m*.avro")))
        (self.folder / f"m{number}.avro").write_bytes(manifest(*entries, partition=by))
        return {
            "manifest_path": f"{self.metadata['location']}/metadata/m{number}.avro",
            "manifest_length": (self.folder / f"m{number}.avro").stat().st_size,
            "partition_spec_id": 0,
            "content": int(deletes),
            "sequence_number": len(self.snapshots) + 1,
            "added_snapshot_id": len(self.snapshots) + 1,
            "added_files_count": len(entries),
            "existing_files_count": 0,
            **given,
        }

    async def commit(
        self, *lines: dict[str, Any], operation: str = "append", manifest_list_at: str | None = None
    ) -> int:
        """Commit a snapshot with all previous manifests and these."""
        self.lines += lines
        id = len(self.snapshots) + 1
        (self.folder / f"snap-{id}.avro").write_bytes(manifest_list(*self.lines))
        snapshot = {
            "snapshot-id": id,
            "sequence-number": id,
            "timestamp-ms": self.metadata["last-updated-ms"] + id,
            "manifest-list": manifest_list_at or f"{self.metadata['location']}/metadata/snap-{id}.avro",
            "summary": {"operation": operation},
            "schema-id": 0,
        }
        if self.snapshots:
            snapshot["parent-snapshot-id"] = self.snapshots[-1]
        added = await self.lake.commit(
            self.name,
            {"action": "add-snapshot", "snapshot": snapshot},
            {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": id},
        )
        assert added.status_code == 200, added.text
        self.snapshots.append(id)
        return id

    async def plan(self, headers: dict[str, str] | None = None, /, **request: Any) -> httpx.Response:
        body = {name.replace("_", "-"): value for name, value in request.items()}
        path = f"/iceberg/v1/{self.lake.prefix}{to_table(self.name)}/plan"
        return await self.lake.house.console.http.post(path, json=body, headers=headers)

    async def files(self, **request: Any) -> list[str]:
        """The paths of all files that a scan would read, tasks included."""
        answer = await self.plan(**request)
        assert answer.status_code == 200, answer.text
        found = paths(answer)
        for task in answer.json()["plan-tasks"]:
            found += paths(await self.tasks(task))
        return found

    async def tasks(self, task: str) -> httpx.Response:
        return await self.lake.ask("POST", f"{to_table(self.name)}/tasks", {"plan-task": task})

    async def fetch(self, id: str) -> httpx.Response:
        return await self.lake.ask("GET", f"{to_table(self.name)}/plan/{id}")

    async def cancel(self, id: str) -> httpx.Response:
        return await self.lake.ask("DELETE", f"{to_table(self.name)}/plan/{id}")


async def planned_table(lake: Lake, name: str = "orders", /, **given: Any) -> Planned:
    made = await lake.create(name, **given)
    assert made.status_code == 200, made.text
    return Planned(lake, name, made.json()["metadata"])


def paths(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [task["data-file"]["file-path"] for task in answer.json()["file-scan-tasks"]]


def data(path: str, city: str | None = None, *, ids: tuple[int, int] | None = None, **given: Any) -> Any:
    """A data file with the ids between two bounds, in the partition of a city."""
    bounds = {}
    if ids is not None:
        lower, upper = ({1: struct.pack("<q", each)} for each in ids)
        bounds = {"lower_bounds": lower, "upper_bounds": upper, "value_counts": {1: 10}, "null_value_counts": {1: 0}}
    partition = {} if city is None else {"city": city}
    return entry(path, **{"partition": partition, **bounds, **given})


def eq(term: str, value: Any) -> dict[str, Any]:
    return {"type": "eq", "term": term, "value": value}
