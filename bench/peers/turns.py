"""Measures servers in turns, and compares their medians."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from statistics import median
from typing import Protocol

import msgspec

from bench.lines import Cost

JAVA_WARM_UPS = 3
"""Turns until the JIT compiler has little left to do: the first costs four times as much as the fourth."""


class Workload(Protocol):
    async def costs(self, turn: int) -> list[Cost]:
        """Returns the cost of each kind of request. The kinds and their order are the same in every turn."""


class Ratio(msgspec.Struct, frozen=True):
    """How many times better than the peer. If the figures were a range, the ratio is a range."""

    least: float
    most: float

    def __str__(self) -> str:
        least, most = f"{self.least:.2g}", f"{self.most:.2g}"
        return f"{least} ×" if least == most else f"{least}–{most} ×"


def implied_cpu(ours: float, *theirs: float) -> Ratio:
    """Returns the ratio of the peer's CPU time, as its authors measured it, to our target in the issue."""
    return Ratio(min(theirs) / ours, max(theirs) / ours)


def implied_rate(ours: float, theirs: float) -> Ratio:
    return Ratio(ours / theirs, ours / theirs)


async def in_turns(workloads: Sequence[Workload], turns: int, *, warm_ups: int = 1) -> list[list[Cost]]:
    """Returns the medians of each, after warm-up turns, which run concurrently and are not counted."""
    for turn in range(warm_ups):
        await asyncio.gather(*(workload.costs(turn) for workload in workloads))
    found: list[list[list[Cost]]] = [[] for _ in workloads]
    for turn in range(warm_ups, warm_ups + turns):
        for workload, costs in zip(workloads, found, strict=True):
            costs.append(await workload.costs(turn))
    return [_medians(costs) for costs in found]


def _medians(turns: list[list[Cost]]) -> list[Cost]:
    return [
        Cost(same[0].what, same[0].clients, median(c.cpu_ms for c in same), median(c.per_second for c in same))
        for same in zip(*turns, strict=True)
    ]


def show(title: str, ours: list[Cost], theirs: list[Cost], cpu: dict[str, Ratio], rates: dict[str, Ratio]) -> None:
    """Prints a line for each kind of request: the measured values, and the ratio that the issues' targets imply."""
    head = ["", "CPU ms: ours", "theirs", "ratio", "implied", "", "per second: ours", "theirs", "ratio", "implied", ""]
    pairs = zip(ours, theirs, strict=True)
    lines = [head, *(_cells(mine, other, cpu.get(mine.what), rates.get(mine.what)) for mine, other in pairs)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    print(f"\n{title}")
    for what, *cells in lines:
        aligned = (cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))
        print("  " + "  ".join([what.ljust(widths[0]), *aligned]).rstrip(), flush=True)


def _cells(ours: Cost, theirs: Cost, cpu: Ratio | None, rate: Ratio | None) -> list[str]:
    return [
        f"{ours.what}, {ours.clients} client{'s' * (ours.clients > 1)}",
        *(f"{ours.cpu_ms:.3f}", f"{theirs.cpu_ms:.3f}", *_verdict(theirs.cpu_ms / ours.cpu_ms, cpu)),
        *(f"{ours.per_second:,.0f}", f"{theirs.per_second:,.0f}"),
        *_verdict(ours.per_second / theirs.per_second, rate),
    ]


def _verdict(found: float, wanted: Ratio | None) -> tuple[str, str, str]:
    if wanted is None:
        return f"{found:.1f} ×", "", ""
    return f"{found:.1f} ×", str(wanted), "holds" if found >= wanted.least else "FALLS SHORT"
