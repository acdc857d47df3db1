"""`make peers`: compares our server with others, with the same requests, in turns."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.peers import iceberg, lance, unity
from bench.peers.turns import Comparison, plot, show


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    parser.add_argument("--turns", type=int, default=3, help="measured turns of each server, after the warm-up turns")
    parser.add_argument("--plots", action="store_true", help="also print the ratios as charts for docs/speed.md")
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--only", choices=("iceberg", "lance"), help="compare with only one of the two")
    only.add_argument("--unity", metavar="URL", help="compare with a running Unity Catalog instead")
    parser.add_argument("--unity-pid", type=int, metavar="PID", help="its process id, to measure its CPU time")
    given = parser.parse_args()
    if (given.unity is None) != (given.unity_pid is None):
        parser.error("--unity and --unity-pid must be given together")
    return given


def main() -> int:
    given = _arguments()
    with tempfile.TemporaryDirectory() as name:
        for found in _comparisons(given, Path(name)):
            show(found)
            if given.plots:
                plot(found)
    return 0


def _comparisons(given: argparse.Namespace, folder: Path) -> Iterator[Comparison]:
    if given.unity:
        yield unity.compare(folder, given.unity, given.unity_pid, given.turns)
        return
    if given.only != "lance":
        yield from iceberg.compare(folder / "iceberg", given.turns)
    if given.only != "iceberg":
        yield lance.compare(folder / "lance", given.turns)


if __name__ == "__main__":
    sys.exit(main())
