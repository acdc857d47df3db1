"""With the policy `auto`, a table becomes healthy without any request."""

from __future__ import annotations

import time

import lance
import pyarrow as pa
import pytest

from moorage.client import Client
from moorage.client.lance import Lake
from moorage.testing.server import ServerProcess

pytestmark = pytest.mark.xdist_group("upkeep")


def test_the_server_and_a_worker_compact_a_table_by_themselves(lake: ServerProcess, moored: Client) -> None:
    moored.namespaces.create("lake", ["kept"], properties={"moorage.upkeep.policy": "auto"})
    id = ["lake", "kept", "t"]
    for number in range(25):
        rows = pa.table({"id": pa.array([number], pa.int64())})
        mode = "append" if number else "create"
        lance.write_dataset(rows, namespace_client=Lake(lake.url), table_id=id, mode=mode)
    deadline = time.monotonic() + 180
    while (health := moored.namespaces.health("lake", ["kept"], "t")).score < 90 and time.monotonic() < deadline:
        time.sleep(1)
    assert health.score >= 90, health
    assert (health.policy, health.policy_set_by) == ("auto", "kept")
    job = health.jobs[-1]
    assert "files are small" in job.args["reason"]
    assert job.result is not None
    assert job.result["before"]["files"] > job.result["after"]["files"]
    assert lance.dataset(namespace_client=Lake(lake.url), table_id=id).count_rows() == 25
