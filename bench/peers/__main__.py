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
    only.add_argument(
        "--unity", type=Path, metavar="FILE", help="compare with Unity Catalog instead; FILE has its class path"
    )
    return parser.parse_args()


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
        yield from unity.compare(folder, given.unity, given.turns)
        return
    if given.only != "lance":
        yield from iceberg.compare(folder / "iceberg", given.turns)
    if given.only != "iceberg":
        yield lance.compare(folder / "lance", given.turns)


if __name__ == "__main__":
    sys.exit(main())
