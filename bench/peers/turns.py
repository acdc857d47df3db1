"""Two servers in turns, and what their medians say of each other."""

from __future__ import annotations

from statistics import median
from typing import Protocol

import msgspec

from bench.lines import Cost


class Workload(Protocol):
    async def costs(self, turn: int) -> list[Cost]:
        """What each kind of request costs; the kinds and their order are the same in every turn."""


class Ratio(msgspec.Struct, frozen=True):
    """How many times better than the peer, by the figures of an issue: they may give a range."""

    least: float
    most: float

    def __str__(self) -> str:
        least, most = f"{self.least:.2g}", f"{self.most:.2g}"
        return f"{least} ×" if least == most else f"{least}–{most} ×"


class Compared(msgspec.Struct, frozen=True):
    ours: Cost
    theirs: Cost

    @property
    def cpu_ratio(self) -> float:
        return self.theirs.cpu_ms / self.ours.cpu_ms

    @property
    def rate_ratio(self) -> float:
        return self.ours.per_second / self.theirs.per_second


async def in_turns(ours: Workload, theirs: Workload, turns: int) -> list[Compared]:
    """Medians of the turns. The first one is forgotten: caches fill, and Java compiles what it will run."""
    found: tuple[list[list[Cost]], list[list[Cost]]] = ([], [])
    for turn in range(turns + 1):
        for workload, costs in zip((ours, theirs), found, strict=True):
            costs.append(await workload.costs(turn))
    return [Compared(mine, other) for mine, other in zip(*(_medians(costs[1:]) for costs in found), strict=True)]


def _medians(turns: list[list[Cost]]) -> list[Cost]:
    return [
        Cost(same[0].what, same[0].clients, median(c.cpu_ms for c in same), median(c.per_second for c in same))
        for same in zip(*turns, strict=True)
    ]


def show(title: str, compared: list[Compared], cpu: dict[str, Ratio], rates: dict[str, Ratio]) -> None:
    """One line for each kind of request: what the issue implies stands beside what was measured."""
    head = ["", "CPU ms: ours", "theirs", "ratio", "issue", "", "per second: ours", "theirs", "ratio", "issue", ""]
    lines = [head, *(_cells(pair, cpu.get(pair.ours.what), rates.get(pair.ours.what)) for pair in compared)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    print(f"\n{title}")
    for line in lines:
        first, *others = (cell.rjust(width) for cell, width in zip(line, widths, strict=True))
        print("  " + "  ".join([first.strip().ljust(widths[0]), *others]).rstrip(), flush=True)


def _cells(pair: Compared, cpu: Ratio | None, rate: Ratio | None) -> list[str]:
    ours, theirs = pair.ours, pair.theirs
    return [
        f"{ours.what}, {ours.clients} client{'s' * (ours.clients > 1)}",
        *(f"{ours.cpu_ms:.3f}", f"{theirs.cpu_ms:.3f}", *_verdict(pair.cpu_ratio, cpu)),
        *(f"{ours.per_second:,.0f}", f"{theirs.per_second:,.0f}", *_verdict(pair.rate_ratio, rate)),
    ]


def _verdict(found: float, implied: Ratio | None) -> tuple[str, str, str]:
    if implied is None:
        return f"{found:.1f} ×", "", ""
    return f"{found:.1f} ×", str(implied), "holds" if found >= implied.least else "FALLS SHORT"
