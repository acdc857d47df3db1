"""Iceberg's REST compatibility kit passes."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from moorage.testing.server import ServerProcess
from tests.conformance.rck.kit import OWN_FOLDER, run_kit

TESTS_FOR_A_REST_CATALOG = 147
"""Of 157: one is disabled in the kit, and nine are for other kinds of catalogs."""

pytestmark = pytest.mark.xdist_group("rck")  # one after the other, because all use the same folder


@pytest.mark.slow
@pytest.mark.timeout(660)
def test_the_kit_passes_twice_in_a_row_on_one_warehouse(tmp_path: Path) -> None:
    require_kit_passes(tmp_path, None, runs=2)


@pytest.mark.postgres
@pytest.mark.slow
@pytest.mark.timeout(360)
def test_the_kit_passes_on_postgresql(tmp_path: Path, database_url: str) -> None:
    require_kit_passes(tmp_path, database_url, runs=1)


def require_kit_passes(folder: Path, database: str | None, *, runs: int) -> None:
    scratch = folder / "scratch"
    scratch.mkdir()
    flags = ("--external-folder", str(OWN_FOLDER))
    with (
        ServerProcess(folder / "data", database=database, flags=flags) as server,
        httpx.Client(base_url=f"{server.url}/api/moorage/v1", trust_env=False, timeout=60) as console,
    ):
        assert console.post("/catalogs", json={"name": "kit"}).status_code == 201
        for _ in range(runs):
            verdict = run_kit(f"{server.url}/iceberg", "kit", scratch)
            assert (verdict.failed, verdict.passed) == ([], TESTS_FOR_A_REST_CATALOG), verdict.output[-8000:]
            # The kit leaves the namespaces of its last test behind, and starts only if there are none.
            for space in console.get("/catalogs/kit/namespaces").json()["items"]:
                console.delete(f"/catalogs/kit/namespaces/{space['name']}", params={"cascade": True})
