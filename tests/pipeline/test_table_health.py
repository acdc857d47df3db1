"""The health of real tables of the three formats, on a real server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from moorage.client import Client, ClientError
from moorage.client.answers import TableHealth
from moorage.client.lance import Lake
from moorage.testing.server import ServerProcess
from tests.cli.conftest import Moorage, moorage
from tests.conformance.lakes import pyiceberg_of

__all__ = ["moorage"]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path / "data") as process:
        yield process


@pytest.fixture
def client(server: ServerProcess) -> Iterator[Client]:
    with Client(server.url) as client:
        yield client


def problems(found: TableHealth) -> dict[str, bool]:
    return {each.problem: each.due for each in found.findings}


def test_an_iceberg_table_is_checked_in_its_manifests(server: ServerProcess, client: Client) -> None:
    client.catalogs.create("lake", properties={"moorage.upkeep.policy": "auto"})
    client.namespaces.create("lake", ["sea"])
    rows = pa.table({"id": pa.array(range(10), pa.int64())})
    table = pyiceberg_of(server).create_table("sea.t", schema=rows.schema)
    for _ in range(12):
        table.append(rows)
    found = client.namespaces.health("lake", ["sea"], "t")
    assert problems(found) == {"small_files": True, "many_manifests": True}
    assert (found.facts["files"], found.facts["rows"], found.facts["manifests"]) == (12, 120, 12)
    assert (found.policy, found.policy_set_by) == ("auto", "lake")
    table.overwrite(rows)
    again = client.namespaces.health("lake", ["sea"], "t")
    assert (again.facts["files"], problems(again).get("small_files", False)) == (1, False)


def test_a_lance_table_is_checked_in_its_fragments_and_indexes(server: ServerProcess, client: Client) -> None:
    client.catalogs.create("lake")
    client.namespaces.create("lake", ["sea"])
    lake, id = Lake(server.url), ["lake", "sea", "t"]
    rows = pa.table({"id": pa.array(range(100), pa.int64())})
    dataset = lance.write_dataset(rows, namespace_client=lake, table_id=id)
    dataset.create_scalar_index("id", "BTREE")
    for _ in range(11):
        dataset = lance.write_dataset(rows, namespace_client=lake, table_id=id, mode="append")
    dataset.delete("id < 20")
    found = client.namespaces.health("lake", ["sea"], "t")
    assert problems(found) == {"small_files": True, "stale_indexes": True, "deleted_rows": True, "delete_files": True}
    assert (found.facts["files"], found.facts["rows"], found.facts["deleted_rows"]) == (12, 1200, 240)


def test_the_command_shows_the_score_and_the_reasons(moorage: Moorage, server: ServerProcess, client: Client) -> None:
    client.catalogs.create("lake")
    client.namespaces.create("lake", ["sea"])
    rows = pa.table({"id": pa.array(range(10), pa.int64())})
    table = pyiceberg_of(server).create_table("sea.t", schema=rows.schema)
    for _ in range(15):
        table.append(rows)
    shown = moorage("health", "lake.sea.t", "--url", server.url)
    assert shown.returncode == 0
    assert "lake.sea.t (iceberg, version 15)" in shown.stdout
    assert "small_files (65%, due: compact): 15 of 15 files are small" in shown.stdout
    parsed = json.loads(moorage("health", "lake.sea.t", "--json", "--url", server.url).stdout)
    assert parsed["findings"][0]["work"] == "compact"


def test_a_table_that_does_not_exist_has_no_health(client: Client) -> None:
    client.catalogs.create("lake")
    client.namespaces.create("lake", ["sea"])
    with pytest.raises(ClientError) as refused:
        client.namespaces.health("lake", ["sea"], "t")
    assert refused.value.code == "TABLE_NOT_FOUND"
