"""Measures servers in turns, and compares their medians."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Protocol

import msgspec

from bench.lines import Cost

JAVA_WARM_UPS = 3
"""Turns until the JIT compiler has little left to do: the first costs four times as much as the fourth."""


class Workload(Protocol):
    async def costs(self, turn: int) -> list[Cost]:
        """Returns the cost of each kind of request. The kinds and their order are the same in every turn."""


class Comparison(msgspec.Struct, frozen=True):
    """The medians of our server and of a peer, for the same requests, with the targets for ours."""

    title: str
    ours: list[Cost]
    theirs: list[Cost]
    cpu: Mapping[str, Target]
    rates: Mapping[str, Target]

    @property
    def pairs(self) -> list[tuple[Cost, Cost]]:
        return list(zip(self.ours, self.theirs, strict=True))


class Ratio(msgspec.Struct, frozen=True):
    """How many times better than the peer. If the figures were a range, the ratio is a range."""

    least: float
    most: float

    def holds(self, ratio: float, ours: Cost) -> bool:
        return ratio >= self.least

    def __str__(self) -> str:
        least, most = f"{self.least:.2g}", f"{self.most:.2g}"
        return f"{least} ×" if least == most else f"{least}–{most} ×"


class AtMost(msgspec.Struct, frozen=True):
    """A target for our CPU milliseconds, with one client and with several, whatever the peer needs."""

    alone: float
    together: float

    def __str__(self) -> str:
        return f"≤ {self.alone:g}, {self.together:g} ms"

    def holds(self, ratio: float, ours: Cost) -> bool:
        return ours.cpu_ms <= (self.alone if ours.clients == 1 else self.together)


class AtLeast(msgspec.Struct, frozen=True):
    """A target for our rate, whatever the peer's is."""

    per_second: float

    def __str__(self) -> str:
        return f"≥ {self.per_second:g}/s"

    def holds(self, ratio: float, ours: Cost) -> bool:
        return ours.per_second >= self.per_second


Target = Ratio | AtMost | AtLeast


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


def show(found: Comparison) -> None:
    """Prints a line for each kind of request: the measured values, and our targets or the ratios that they imply."""
    head = ["", "CPU ms: ours", "theirs", "ratio", "target", "", "per second: ours", "theirs", "ratio", "target", ""]
    pairs = zip(found.ours, found.theirs, strict=True)
    lines = [
        head,
        *(_cells(mine, other, _target(found.cpu, mine), _target(found.rates, mine)) for mine, other in pairs),
    ]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    print(f"\n{found.title}")
    for what, *cells in lines:
        aligned = (cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))
        print("  " + "  ".join([what.ljust(widths[0]), *aligned]).rstrip(), flush=True)


def plot(found: Comparison) -> None:
    """Prints the ratios as two charts that GitHub draws in Markdown: for one client, and for several."""
    for alone in (True, False):
        pairs = [
            (mine, other) for mine, other in zip(found.ours, found.theirs, strict=True) if (mine.clients == 1) is alone
        ]
        ratios = [round(other.cpu_ms / mine.cpu_ms, 1) for mine, other in pairs]
        kinds = ", ".join(f'"{mine.what}"' for mine, _ in pairs)
        clients = "1 client" if alone else "16 clients"
        print("\n```mermaid\nxychart-beta horizontal")
        print(f'    title "{found.title}: CPU per request, theirs ÷ ours, {clients}"')
        print(f"    x-axis [{kinds}]")
        print(f'    y-axis "times as much" 0 --> {round(max(ratios) * 1.1)}')
        print(f"    bar {ratios}\n```")


def _label(cost: Cost) -> str:
    return f"{cost.what}, {cost.clients} client{'s' * (cost.clients > 1)}"


def _target(targets: Mapping[str, Target], cost: Cost) -> Target | None:
    """The target of a kind of request, for any number of clients or for this one only."""
    return targets.get(_label(cost)) or targets.get(cost.what)


def _cells(ours: Cost, theirs: Cost, cpu: Target | None, rate: Target | None) -> list[str]:
    return [
        _label(ours),
        *(f"{ours.cpu_ms:.3f}", f"{theirs.cpu_ms:.3f}", *_verdict(theirs.cpu_ms / ours.cpu_ms, ours, cpu)),
        *(f"{ours.per_second:,.0f}", f"{theirs.per_second:,.0f}"),
        *_verdict(ours.per_second / theirs.per_second, ours, rate),
    ]


def _verdict(ratio: float, ours: Cost, wanted: Target | None) -> tuple[str, str, str]:
    if wanted is None:
        return f"{ratio:.1f} ×", "", ""
    return f"{ratio:.1f} ×", str(wanted), "holds" if wanted.holds(ratio, ours) else "FALLS SHORT"
