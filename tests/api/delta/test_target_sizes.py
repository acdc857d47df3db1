"""A compaction makes files of the size with which the health of the table counts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from moorage.testing import delta_writer as write
from tests.api.delta.delta_client import DeltaClient, ok
from tests.api.delta.test_expiry import lease
from tests.api.house import V1, House

MB = 1024 * 1024


@pytest.mark.parametrize(
    ("stated", "requested", "expected"),
    [
        ({"delta.targetFileSize": "1mb"}, {}, MB),
        ({"delta.targetFileSize": "1mb"}, {"target_file_size_mb": 16}, 16 * MB),
        ({"delta.targetFileSize": "9" * 30}, {}, 1 << 40),
        ({}, {}, 128 * MB),
    ],
)
async def test_files_become_as_large_as_the_request_or_else_the_table_states(
    house: House, spec: DeltaClient, stated: dict[str, str], requested: dict[str, Any], expected: int
) -> None:
    table = await spec.make(properties=stated)
    files = (write.add(size=1000, stats=json.dumps({"numRecords": 1})) for _ in range(4))
    ok(await spec.commit(table, table.stage(1, *files)))
    _, header = await lease(house, "compact", **requested)
    shadow = ok(await spec.http.post(f"{V1}/tables/{table.id}/shadows", headers=header))["shadow"]
    assert (shadow["target_bytes"], shadow["files"]) == (expected, 4)


async def test_files_of_the_size_that_the_table_states_are_not_rewritten(house: House, spec: DeltaClient) -> None:
    table = await spec.make(properties={"delta.targetFileSize": "1mb"})
    files = (write.add(size=MB, stats=json.dumps({"numRecords": 1})) for _ in range(40))
    ok(await spec.commit(table, table.stage(1, *files)))
    _, header = await lease(house, "compact")
    assert ok(await spec.http.post(f"{V1}/tables/{table.id}/shadows", headers=header))["shadow"] is None
