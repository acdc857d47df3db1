"""Server-side scan planning for an Iceberg table of 1,000 files in 10 manifests: the server's CPU per plan."""

from __future__ import annotations

import asyncio
import json
import struct
from pathlib import Path
from typing import Any

from bench.lines import Line, cpu_ms
from bench.load import Server, serving
from bench.report import Row
from moorage.testing.manifest_writer import entry, manifest, manifest_list

_PREFIX = "/iceberg/v1"
_TABLE = "/bench/namespaces/sea/tables/t"
_MANIFESTS, _FILES, _COLUMNS, _TIMES = 10, 100, 10, 100
_SCHEMA = {
    "type": "struct",
    "fields": [{"id": n, "name": f"c{n}", "required": False, "type": "long"} for n in range(1, _COLUMNS + 1)],
}
_SPEC = {"fields": [{"source-id": 1, "name": "c1", "transform": "identity"}]}
_PARTITION = [{"name": "c1", "field-id": 1000, "type": ["null", "long"], "default": None}]
_ONE_MANIFEST = {"type": "eq", "term": "c1", "value": 3}
_ONE_FILE = {"type": "eq", "term": "c2", "value": 3_050}
_HALF = {"type": "lt", "term": "c2", "value": 5_000}


async def _make(line: Line) -> None:
    await line.done("POST", "/bench/namespaces", {"namespace": ["sea"]})
    body = {"name": "t", "schema": _SCHEMA, "partition-spec": _SPEC}
    made = json.loads(await line.done("POST", "/bench/namespaces/sea/tables", body))["metadata"]
    snapshot = {
        "snapshot-id": 1,
        "sequence-number": 1,
        "timestamp-ms": made["last-updated-ms"] + 1,
        "manifest-list": _write(made["location"]),
        "summary": {"operation": "append"},
    }
    ref = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 1}
    updates = [{"action": "add-snapshot", "snapshot": snapshot}, ref]
    await line.done("POST", _TABLE, {"requirements": [], "updates": updates})


def _write(location: str) -> str:
    """Manifest n lists the files of partition n. Each file has a thousandth of the values of every other column."""
    folder, lines = Path(location.removeprefix("file://")) / "metadata", []
    for number in range(_MANIFESTS):
        path = folder / f"m{number}.avro"
        files = [_file(location, number, at) for at in range(_FILES)]
        path.write_bytes(manifest(*files, partition=_PARTITION))
        bound = struct.pack("<q", number)
        summary = {"contains_null": False, "contains_nan": False, "lower_bound": bound, "upper_bound": bound}
        line = {"manifest_path": f"{location}/metadata/m{number}.avro", "manifest_length": path.stat().st_size}
        counts = {"added_files_count": _FILES, "existing_files_count": 0}
        lines.append({**line, **counts, "partition_spec_id": 0, "partitions": [summary]})
    (folder / "snap.avro").write_bytes(manifest_list(*lines))
    return f"{location}/metadata/snap.avro"


def _file(location: str, partition: int, at: int) -> Any:
    first = 10 * (partition * _FILES + at)
    columns = range(2, _COLUMNS + 1)
    return entry(
        f"{location}/data/c1={partition}/{first:08}.parquet",
        partition={"c1": partition},
        column_sizes=dict.fromkeys(columns, 4_000),
        value_counts=dict.fromkeys(columns, 10),
        null_value_counts=dict.fromkeys(columns, 0),
        lower_bounds=dict.fromkeys(columns, struct.pack("<q", first)),
        upper_bounds=dict.fromkeys(columns, struct.pack("<q", first + 9)),
        split_offsets=[4],
    )


async def _rows(server: Server) -> list[Row]:
    console = await Line(server.url, "/api/moorage/v1").open()
    await console.ask("POST", "/catalogs", {"name": "bench"})
    line = await Line(server.url, _PREFIX).open()
    await _make(line)
    before = server.cpu_seconds()
    await line.done("POST", f"{_TABLE}/plan", {})
    rows = [Row("cold, 1,000 files in 10 manifests", f"{1000 * (server.cpu_seconds() - before):.0f} ms CPU")]
    for what, condition, limit in (
        ("all 1,000 files", True, 3.0),
        ("500 by bounds", _HALF, 5.0),
        ("1 of 1,000 by bounds", _ONE_FILE, 4.0),
        ("100 by partition, from the manifest list", _ONE_MANIFEST, 1.0),
    ):
        asked = [("POST", f"{_TABLE}/plan", {"filter": condition})] * _TIMES
        cpu = await cpu_ms(server, _PREFIX, 1, asked)
        rows.append(Row(what, f"{cpu:.2f} ms CPU", f"≤ {limit:.0f} ms", cpu <= limit))
    return rows


def plan_rows(folder: Path) -> list[Row]:
    with serving(folder, "--chores-interval-seconds", "3600") as server:
        return asyncio.run(_rows(server))
