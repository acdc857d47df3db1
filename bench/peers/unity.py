"""Compares with Unity Catalog's own server, which the user built and started: no registry offers it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from bench.delta import DeltaLoad
from bench.load import Server, serving
from bench.peers.turns import JAVA_WARM_UPS, Comparison, implied_cpu, in_turns

_CPU = {
    "commit, distinct tables": implied_cpu(0.2, 0.6),
    "get table": implied_cpu(0.1, 0.3),
    "get commits": implied_cpu(0.1, 0.27),
    "list 100 tables": implied_cpu(0.5, 26),
}


def compare(folder: Path, url: str, pid: int, turns: int) -> Comparison:
    with serving(folder, "--chores-interval-seconds", "3600") as server:
        ours, theirs = DeltaLoad(server, preview=True), DeltaLoad(Server(pid, url), preview=True)
        by_us, by_them = asyncio.run(in_turns([ours, theirs], turns, warm_ups=JAVA_WARM_UPS))
    return Comparison("Unity Catalog's own server", by_us, by_them, _CPU, {})
