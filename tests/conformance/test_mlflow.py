"""MLflow's model registry on a Unity catalog."""

from __future__ import annotations

import subprocess
from pathlib import Path

import httpx
import pytest

from moorage.testing.server import ServerProcess, clean_environment
from scripts.steps import TOOLS

PYTHON = TOOLS / "judges" / "bin" / "python"
PROGRAM = Path(__file__).with_name("mlflow_registry.py")


@pytest.mark.skipif(not PYTHON.exists(), reason="MLflow is installed by python3 -m scripts.setup judges")
def test_a_model_is_registered_searched_and_deleted(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    with ServerProcess(tmp_path / "data") as server, httpx.Client(trust_env=False) as http:
        unity = f"{server.url}/api/2.1/unity-catalog"
        http.post(f"{unity}/catalogs", json={"name": "lake"}).raise_for_status()
        http.post(f"{unity}/schemas", json={"name": "sea", "catalog_name": "lake"}).raise_for_status()
        done = subprocess.run(
            [PYTHON, "-W", "ignore", PROGRAM, server.url, "lake.sea.churn", tmp_path / "model"],
            check=False,
            env=clean_environment(),
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert done.returncode == 0, done.stderr
