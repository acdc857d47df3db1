"""`make peers`: our server beside those of others, in turns, with the same requests."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from bench.peers import unity


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    parser.add_argument("--turns", type=int, default=3, help="measured turns of each server, after one to warm up")
    parser.add_argument("--unity", metavar="URL", help="a Unity Catalog that runs already")
    parser.add_argument("--unity-pid", type=int, metavar="PID", help="its process, whose CPU time is counted")
    given = parser.parse_args()
    if (given.unity is None) != (given.unity_pid is None):
        parser.error("--unity and --unity-pid belong together")
    return given


def main() -> int:
    given = _arguments()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if given.unity:
            unity.compare(folder / "unity", given.unity, given.unity_pid, given.turns)
    return 0


if __name__ == "__main__":
    sys.exit(main())
