from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
MARKED = """
import pytest

pytestmark = pytest.mark.xdist_group("g")

@pytest.mark.parametrize("n", range(8))
def test_one_of_a_group(n: int, worker_id: str) -> None:
    with open("workers", "a") as seen:
        seen.write(worker_id + "\\n")
"""


def test_a_group_of_tests_stays_in_one_process(tmp_path: Path) -> None:
    (tmp_path / "test_marked.py").write_text(MARKED, encoding="ascii")
    plugins = ("-p", "xdist.plugin", "-p", "tests.groups", "-p", "no:cacheprovider")
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadgroup", *plugins]
    subprocess.run(
        [*command, "--rootdir", str(tmp_path), "test_marked.py"],
        cwd=tmp_path,
        # No other plugin: each of three processes would spend a second on loading them.
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        check=True,
        capture_output=True,
    )
    seen = (tmp_path / "workers").read_text(encoding="ascii").split()
    assert (len(seen), len(set(seen))) == (8, 1)
