"""Compares with Lance's own REST server, on a folder: `python -m bench.peers.lance PORT FOLDER` runs it."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

from bench.lance import OURS, LanceLoad
from bench.lines import Cost
from bench.load import running, serving
from bench.peers.turns import AtMost, Comparison, Ratio, implied_cpu, in_turns
from moorage.testing.postgres import free_port

_THEIRS = "/v1"
_DECLARED = 100
_ROUNDS = 20
"""Versions of each table. With few of them, the pause until the last chore runs counts for more than its work."""
_OTHER_TABLES = 1_000
"""Existing tables when the reference figures were measured. Lance's own server slows down with each table."""

_CPU = {
    "describe table": implied_cpu(0.12, 1.8),
    "declare table": implied_cpu(0.3, 13),
    "create version, distinct tables": implied_cpu(0.25, 2.4, 4.2),
    "the same with chores": AtMost(0.5, 0.5),
}
_RATES = {"the same with chores": Ratio(1.5, 1.5)}


def compare(folder: Path, turns: int) -> Comparison:
    port, root = free_port(), folder / "theirs"
    root.mkdir(parents=True)
    command = [sys.executable, "-m", __name__, str(port), str(root)]
    with (
        serving(folder / "ours") as ours,
        running(command, port, ready="/v1/namespace/%24/list") as theirs,
    ):
        loads = [
            LanceLoad(server, prefix, declared=_DECLARED, rounds=_ROUNDS, with_chores=True)
            for server, prefix in ((ours, OURS), (theirs, _THEIRS))
        ]
        by_us, by_them = asyncio.run(_costs(loads, turns))
    return Comparison("Lance's own server, on a folder", by_us, by_them, _CPU, _RATES)


async def _costs(loads: list[LanceLoad], turns: int) -> list[list[Cost]]:
    await asyncio.gather(*(load.crowd(_OTHER_TABLES) for load in loads))
    return await in_turns(loads, turns)


def _serve(port: int, root: str) -> None:
    from lance.namespace import RestAdapter

    with RestAdapter("dir", {"root": root, "table_version_tracking_enabled": "true"}, port=port):
        signal.pause()


if __name__ == "__main__":
    _serve(int(sys.argv[1]), sys.argv[2])
