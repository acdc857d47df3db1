"""Beside Unity Catalog's own server, which someone built and started: it is in no registry."""

from __future__ import annotations

import asyncio
from pathlib import Path

from bench.delta import DeltaLoad
from bench.load import Server, serving
from bench.peers.turns import Ratio, in_turns, show

_CPU = {
    "commit, distinct tables": Ratio(0.6 / 0.2, 0.6 / 0.2),
    "get table": Ratio(0.3 / 0.1, 0.3 / 0.1),
    "get commits": Ratio(0.27 / 0.1, 0.27 / 0.1),
    "list 100 tables": Ratio(26 / 0.5, 26 / 0.5),
}


def compare(folder: Path, url: str, pid: int, turns: int) -> None:
    with serving(folder, "--chores-interval-seconds", "3600") as server:
        ours, theirs = DeltaLoad(server, preview=True), DeltaLoad(Server(pid, url), preview=True)
        compared = asyncio.run(in_turns(ours, theirs, turns))
    show("Managed Delta tables, beside Unity Catalog's own server", compared, _CPU, {})
