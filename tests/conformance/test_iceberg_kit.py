"""Iceberg's own REST compatibility kit finds no fault."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from moorage.testing.server import ServerProcess
from tests.conformance.rck.kit import OWN_FOLDER, run_kit

TESTS_FOR_A_REST_CATALOG = 147
"""Of 157: one is switched off in the kit, nine are about catalogs of another kind."""


@pytest.mark.slow
@pytest.mark.timeout(660)
def test_the_kit_passes_twice_in_a_row_on_one_warehouse(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with (
        ServerProcess(tmp_path / "data", flags=("--external-folder", str(OWN_FOLDER))) as server,
        httpx.Client(base_url=f"{server.url}/api/moorage/v1", trust_env=False) as console,
    ):
        assert console.post("/catalogs", json={"name": "kit"}).status_code == 201
        for _ in range(2):
            verdict = run_kit(f"{server.url}/iceberg", "kit", scratch)
            assert (verdict.failed, verdict.passed) == ([], TESTS_FOR_A_REST_CATALOG), verdict.words[-8000:]
            # The kit leaves the namespaces of its last test behind, and begins only where there are none.
            for space in console.get("/catalogs/kit/namespaces").json()["items"]:
                console.delete(f"/catalogs/kit/namespaces/{space['name']}", params={"cascade": True})
