"""The program of each client, and how it is run at one place."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from scripts.steps import ROOT, TOOLS
from tests.judges.steps import CAPABILITIES, Place

PROGRAM_SECONDS = 600
TESTS_PYTHON, JUDGES_PYTHON = sys.executable, str(TOOLS / "judges" / "bin" / "python")


def module(name: str, python: str = TESTS_PYTHON) -> tuple[str, ...]:
    return (python, "-m", f"tests.judges.clients.{name}")


CLIENTS: dict[str, tuple[str, ...]] = {
    "Spark": module("spark"),
    "PyIceberg": module("pyiceberg"),
    "DuckDB": module("duckdb"),
    "Polars": module("polars"),
    "daft": module("daft", JUDGES_PYTHON),
    "pandas": module("pandas"),
    "iceberg-go": (str(TOOLS / "judge-iceberg-go"),),
    "pylance": module("pylance"),
    "LanceDB": module("lancedb"),
    "deltalake": module("deltalake"),
    "unitycatalog-client": module("unity"),
    "unitycatalog-ai": module("unity_ai", JUDGES_PYTHON),
    "MLflow": module("mlflow", JUDGES_PYTHON),
}


def run(client: str, place: Place) -> dict[str, str]:
    """Run the program of one client at one place, and return the outcome of each capability."""
    # A key or a proxy of the machine would decide the result.
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "MOORAGE_"))}
    direct = {"no_proxy": "127.0.0.1", "NO_PROXY": "127.0.0.1", "AWS_EC2_METADATA_DISABLED": "true"}
    environment = {**clean, **direct, "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}", **place.to_environment()}
    try:
        done = subprocess.run(
            CLIENTS[client],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=PROGRAM_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return dict.fromkeys(CAPABILITIES, f"the program did not end within {PROGRAM_SECONDS} seconds")
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()[-1]
        return dict.fromkeys(CAPABILITIES, f"the program ended with {done.returncode}: {last}")
    outcomes: dict[str, str] = json.loads(done.stdout.strip().splitlines()[-1])
    return outcomes
