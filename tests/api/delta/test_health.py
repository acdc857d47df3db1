"""The health of Delta tables, from their log, the ledger and the reports of their writers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from moorage.testing import delta_writer as write
from tests.api.delta.delta_client import UNITY, DeltaClient, ok
from tests.api.house import V1, House


async def health(client: DeltaClient) -> dict[str, Any]:
    found: dict[str, Any] = ok(await client.http.get(f"{V1}/catalogs/lake/namespaces/sea/tables/t/health"))
    return found


def problems(found: dict[str, Any]) -> dict[str, bool]:
    return {each["problem"]: each["due"] for each in found["findings"]}


def file(rows: int, size: int = 1000, **more: Any) -> dict[str, Any]:
    return write.add(size=size, stats=json.dumps({"numRecords": rows}), **more)


async def test_many_small_files_are_due_for_compaction(spec: DeltaClient) -> None:
    table = await spec.make()
    for version in range(1, 6):
        ok(await spec.commit(table, table.stage(version, *(file(10) for _ in range(20)))))
    found = await health(spec)
    assert problems(found)["small_files"]
    assert found["score"] < 10
    facts = found["facts"]
    assert (facts["files"], facts["rows"], facts["small_files"], facts["avoidable_files"]) == (100, 1000, 100, 99)
    assert (facts["version"], facts["versions_since_checkpoint"], facts["unpublished"]) == (5, 6, 5)
    assert (found["policy"], found["policy_set_by"]) == ("advise", None)


async def test_the_files_of_each_partition_are_merged_apart(spec: DeltaClient) -> None:
    day = {"name": "day", "type": "string", "nullable": True, "metadata": {}}
    table = await spec.make(described={"columns": (*write.COLUMNS, day), "partition_columns": ("day",)})
    files = [file(1, partitionValues={"day": str(number % 50)}) for number in range(100)]
    ok(await spec.commit(table, table.stage(1, *files)))
    assert (await health(spec))["facts"]["avoidable_files"] == 50


async def test_files_of_the_target_size_of_the_table_are_not_small(spec: DeltaClient) -> None:
    table = await spec.make(properties={"delta.targetFileSize": "1mb"})
    ok(await spec.commit(table, table.stage(1, *(file(1, 1024 * 1024) for _ in range(40)))))
    assert (await health(spec))["facts"]["small_files"] == 0


async def test_rows_that_vectors_delete_are_counted(spec: DeltaClient) -> None:
    table = await spec.make()
    vector = {"storageType": "u", "pathOrInlineDv": "x" * 20, "offset": 1, "sizeInBytes": 40, "cardinality": 7}
    ok(await spec.commit(table, table.stage(1, *(file(10, 128 << 20, deletionVector=vector) for _ in range(10)))))
    found = await health(spec)
    assert problems(found)["deleted_rows"]
    assert (found["facts"]["deleted_rows"], found["facts"]["delete_files"]) == (70, 10)


async def test_files_without_statistics_are_counted(spec: DeltaClient) -> None:
    table = await spec.make()
    ok(await spec.commit(table, table.stage(1, *(write.add() for _ in range(30)))))
    found = await health(spec)
    assert "missing_statistics" in problems(found)
    assert (found["facts"]["files_without_statistics"], found["facts"]["rows"]) == (30, None)


@pytest.mark.parametrize(("width", "depth"), [(1, 1.0), (2, 2.8), (100, 10.0)])
async def test_the_clustering_depth_counts_files_that_share_values(spec: DeltaClient, width: int, depth: float) -> None:
    features = (*write.ALL_FEATURES, "domainMetadata", "clustering")
    columns = write.domain("delta.clustering", {"clusteringColumns": [["id"]]})
    table = await spec.make(features=features)
    ranges = [{"minValues": {"id": n}, "maxValues": {"id": n + width - 1}} for n in range(10)]
    files = [write.add(stats=json.dumps({"numRecords": 5, **each}), clusteringProvider="liquid") for each in ranges]
    without_bounds = write.add(stats=json.dumps({"numRecords": 1}))
    ok(await spec.commit(table, table.stage(1, columns, *files, without_bounds)))
    found = await health(spec)
    assert found["facts"]["clustering_depth"] == depth
    assert ("overlapping_files" in problems(found)) == (depth > 5.5)


async def test_the_reports_of_writers_become_advice(spec: DeltaClient) -> None:
    table = await spec.make()
    ok(await spec.commit(table, table.stage(1, file(10))))
    report = {"num_files_added": 60, "num_bytes_added": 60_000, "commit_version": 1}
    body = {"table_id": table.id, "report": {"commit_report": report}}
    ok(await spec.http.post(f"{UNITY}/delta/metrics", json=body))
    found = await health(spec)
    assert found["facts"]["activity"]["files_added"] == 60
    assert problems(found)["small_commits"] is False


async def test_the_policy_of_a_catalog_applies_to_its_tables(spec: DeltaClient) -> None:
    await spec.make()
    ok(await spec.http.patch(f"{V1}/catalogs/lake", json={"set_properties": {"moorage.upkeep.policy": "off"}}))
    found = await health(spec)
    assert (found["policy"], found["policy_set_by"]) == ("off", "lake")
    assert (await spec.http.get(f"{V1}/catalogs/lake/namespaces/sea/tables/x/health")).status_code == 404


async def test_versions_past_the_retention_of_the_table_are_due_for_expiry(spec: DeltaClient, house: House) -> None:
    table = await spec.make(properties={"delta.deletedFileRetentionDuration": "interval 1 days"})
    for version in range(1, 51):
        ok(await spec.commit(table, table.stage(version, file(10, 128 << 20))))
    assert (await health(spec))["facts"]["old_versions"] == 0
    house.clock.advance(2 * 24 * 60 * 60 * 1000)
    found = await health(spec)
    assert (found["facts"]["old_versions"], problems(found)["old_versions"]) == (50, True)
