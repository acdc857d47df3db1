"""The worker processes that run pylance: they start on demand, fail alone, and end with their server."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from lance_namespace_urllib3_client import ApiClient, Configuration
from lance_namespace_urllib3_client.api.data_api import DataApi
from lance_namespace_urllib3_client.exceptions import ServiceException
from lance_namespace_urllib3_client.models import CountTableRowsRequest

from moorage.testing.server import PATIENCE_SECONDS, ServerProcess
from tests.conformance.lance.lake import Lake, refused

ENDLESS = "case when id=1 then " * 4_900
"""A filter that pylance does not finish."""
CRASHING = "id = 1" + "+1" * 20_000
"""A filter that overflows its stack."""


ONE_WORKER = ("--lance-workers", "1")
"""Otherwise the check of a table's health may start a second one."""


def workers_of(server: ServerProcess) -> list[psutil.Process]:
    return [each for each in psutil.Process(server.pid).children() if "moorage.datasets.worker" in each.cmdline()]


def have_exited(workers: list[psutil.Process]) -> bool:
    exited, _ = psutil.wait_procs(workers, timeout=PATIENCE_SECONDS)
    return len(exited) == len(workers)


def rows_of(data: DataApi, id: str) -> int:
    """On a busy machine a worker may take longer to start than a request may take. A retry finds it started."""
    for _ in range(10):
        with suppress(ServiceException):
            return int(data.count_table_rows(id, CountTableRowsRequest()))
    raise AssertionError("no worker started")


@pytest.mark.parametrize("end", [ServerProcess.stop, ServerProcess.kill])
def test_workers_end_with_their_server(tmp_path: Path, end: Callable[[ServerProcess], object]) -> None:
    with ServerProcess(tmp_path / "data", flags=ONE_WORKER) as server:
        lake = Lake(server.url)
        assert workers_of(server) == []
        lake.table(3)
        workers = workers_of(server)
        assert len(workers) == 1
        assert end(server) in (0, None)
        assert have_exited(workers)


def test_a_query_that_takes_too_long_or_crashes_its_worker_does_not_affect_the_server(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        id = Lake(server.url).table(3)
    with ServerProcess(tmp_path / "data", flags=("--request-timeout-seconds", "15", *ONE_WORKER)) as server:
        data = DataApi(ApiClient(Configuration(host=f"{server.url}/lance")))
        for predicate, status, code in ((CRASHING, 500, 18), (ENDLESS, 503, 17)):
            assert rows_of(data, id) == 3
            workers = workers_of(server)
            with refused(status, code):
                data.count_table_rows(id, CountTableRowsRequest(predicate=predicate))
            assert have_exited(workers)
        assert rows_of(data, id) == 3
