"""PyIceberg's own integration tests, as its source distribution ships them, against a server on local disk.

Only those that need neither Spark nor Hive. Their addresses are constants, which are replaced here.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pyarrow as pa

from moorage.testing.server import ServerProcess
from scripts.steps import TOOLS
from tests.conformance.lakes import lake_server, pyiceberg_of

FILES = (
    "test_catalog.py",
    "test_partition_evolution.py",
    "test_rest_catalog.py",
    "test_rest_schema.py",
    "test_snapshot_operations.py",
    "test_sort_order_update.py",
    "test_statistics_operations.py",
)
OTHER_CATALOGS = "not hive and not sqlite and not memory"
NOT_OURS = {"test_catalog.py::test_rest_custom_namespace_separator": "it expects a server with the separator '.'"}
LEAST_PASSED = 450
"""What 0.12.0 has. Fewer would mean that the tests were not found."""
TIMEOUT_SECONDS = 900


def failure_of_suite(python: str) -> str | None:
    """Run the tests and return what failed, with the summary of pytest."""
    with tempfile.TemporaryDirectory(prefix="pyiceberg-") as name:
        folder = Path(name)
        with lake_server(folder / "data") as server:
            prepare(server)
            done = run(folder / "suite", server, python)
        summary = done.stdout.strip().splitlines()[-1] if done.stdout.strip() else done.stderr
        if done.returncode:
            failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
            return "\n".join([*failed, summary])
        counted = re.search(r"(\d+) passed", summary)
        passed = int(counted[1]) if counted else 0
        return None if passed >= LEAST_PASSED else f"only {passed} tests passed: {summary}"


def prepare(server: ServerProcess) -> None:
    """Create what the tests expect: in PyIceberg's repository a script creates it with Spark."""
    catalog = pyiceberg_of(server)
    catalog.create_namespace("default")
    table = catalog.create_table("default.test_table_snapshot_operations", schema=pa.schema([("number", pa.int32())]))
    for number in (1, 2, 3, 4):
        table.append(pa.table({"number": pa.array([number], pa.int32())}))
    table.delete("number = 2")


def run(folder: Path, server: ServerProcess, python: str) -> subprocess.CompletedProcess[str]:
    (source,) = (TOOLS / "pyiceberg").glob("pyiceberg-*/")
    # Without the package itself: the installed one is tested, which has compiled parts.
    shutil.copytree(source / "tests", folder / "tests")
    shutil.copy(source / "pyproject.toml", folder)
    for file in (folder / "tests").rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        file.write_text(text.replace("http://localhost:8181", f"{server.url}/iceberg"), encoding="utf-8")
    tests = [f"tests/integration/{name}" for name in FILES]
    skipped = [f"--deselect=tests/integration/{name}" for name in NOT_OURS]
    return subprocess.run(
        [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", OTHER_CATALOGS, *skipped, *tests],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": "", "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
