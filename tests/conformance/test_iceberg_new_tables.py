"""The metadata of a new table equals what Iceberg's own Java code creates."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from moorage.testing.server import ServerProcess
from tests.conformance.lakes import lake_server, send_request
from tests.conformance.rck.kit import JARS

PROGRAM = Path(__file__).parent / "rck" / "NewTables.java"
TABLES = "/iceberg/v1/lake/namespaces/sea/tables"
SCHEMA: dict[str, Any] = {
    "type": "struct",
    "schema-id": 0,
    "identifier-field-ids": [1],
    "fields": [
        {"id": 1, "name": "id", "required": True, "type": "long"},
        {"id": 2, "name": "city", "required": False, "type": "string", "doc": "where"},
    ],
}
OTHER_SCHEMA: dict[str, Any] = {
    "type": "struct",
    "schema-id": 0,
    "fields": [{"id": 1, "name": "city", "required": False, "type": "string"}],
}
SPEC = {"spec-id": 0, "fields": [{"source-id": 2, "field-id": 1000, "name": "city", "transform": "identity"}]}
ORDER = {
    "order-id": 1,
    "fields": [{"transform": "identity", "source-id": 1, "direction": "asc", "null-order": "nulls-first"}],
}
OWN = {"owner": "ann", "write.parquet.compression-codec": "snappy", "uuid": "mine", "write.format.default": "orc"}

Asked = dict[str, Any]
CASES: list[Asked] = [
    {"schema": SCHEMA, "properties": {**version, **properties}, **parts}
    for version in ({}, {"format-version": "1"}, {"format-version": "2"}, {"format-version": "3"})
    for properties in ({}, {"owner": "ann"}, OWN)
    for parts in ({}, {"spec": SPEC, "order": ORDER})
]


def java(*asked: Asked) -> list[Any]:
    """The answers of Iceberg's own code, one for each request."""
    lines = "".join(f"{json.dumps(each)}\n" for each in asked)
    command = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", f"{JARS}/*", str(PROGRAM)]
    said = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=120, check=False)
    assert said.returncode == 0, said.stderr[-4000:]
    return [json.loads(line) for line in said.stdout.splitlines()]


def comparable(metadata: Asked) -> Asked:
    """The metadata without what differs between any two tables, and without empty parts, which may be left out.

    The reference leaves out the last sequence number in version 1, where it is always 0.
    """
    changing = ["table-uuid", "last-updated-ms", "metadata-log", "location"]
    if metadata["format-version"] == 1:
        assert metadata.get("last-sequence-number", 0) == 0
        changing.append("last-sequence-number")
    kept = {name: value for name, value in metadata.items() if name not in changing}
    return {name: value for name, value in kept.items() if value not in (None, -1, [], {})}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with lake_server(tmp_path_factory.mktemp("new") / "data") as server:
        send_request(server, "POST", "/iceberg/v1/lake/namespaces", json={"namespace": ["sea"]})
        yield server


def create(server: ServerProcess, name: str, asked: Asked, **given: Any) -> Asked:
    body = {"name": name, "schema": asked["schema"], "properties": asked["properties"], **given}
    parts = {"partition-spec": asked.get("spec"), "write-order": asked.get("order")}
    loaded: Asked = send_request(server, "POST", TABLES, json={**body, **parts})
    return loaded


def located(cases: Sequence[Asked], made: Sequence[Asked]) -> list[Asked]:
    return [{**asked, "location": each["location"]} for asked, each in zip(cases, made, strict=True)]


def test_new_and_staged_tables_have_the_metadata_of_the_reference(server: ServerProcess) -> None:
    made = [create(server, f"t{n}", asked)["metadata"] for n, asked in enumerate(CASES)]
    staged = [create(server, f"s{n}", asked, **{"stage-create": True})["metadata"] for n, asked in enumerate(CASES)]
    expected = java(*located(CASES, made))
    assert {"write.parquet.compression-codec": "zstd"} in [each["properties"] for each in expected]
    for asked, ours, ahead, theirs in zip(CASES, made, staged, expected, strict=True):
        assert comparable(ours) == comparable(theirs), asked
        assert comparable(ahead) == comparable(theirs), asked


@pytest.mark.parametrize("version", [1, 2, 3])
def test_replaced_tables_have_the_metadata_of_the_reference(server: ServerProcess, version: int) -> None:
    before = create(server, f"r{version}", {**CASES[-1], "properties": {"format-version": str(version), **OWN}})
    cases: list[Asked] = [
        {"schema": SCHEMA, "spec": SPEC, "properties": {"owner": "bob"}},
        {"schema": OTHER_SCHEMA, "properties": {"write.parquet.compression-codec": "gzip"}},
    ]
    for asked in cases:
        where = {"location": before["metadata"]["location"], "replaces": before["metadata"]}
        [expected] = java({**asked, **where})
        before = send_request(server, "POST", f"{TABLES}/r{version}", json={"updates": expected["updates"]})
        assert comparable(before["metadata"]) == comparable(expected["metadata"]), asked
