"""The table that a run prints: the measured value, its target, and whether the target is met."""

from __future__ import annotations

import msgspec

from bench.lines import Cost


class Row(msgspec.Struct, frozen=True):
    what: str
    measured: str
    promised: str = ""
    holds: bool | None = None


def against(cost: Cost, limit_ms: float | None) -> Row:
    what, measured = f"{cost.what}, {cost.clients} clients", f"{cost.cpu_ms:.3f} ms CPU"
    return Row(what, measured) if limit_ms is None else Row(what, measured, f"≤ {limit_ms} ms", cost.cpu_ms <= limit_ms)


def apart(cost: Cost) -> Row:
    """Shows the CPU time of the server and that of its database separately."""
    own_ms = cost.cpu_ms - cost.beside_ms
    return Row(f"{cost.what}, {cost.clients} clients", f"{own_ms:.3f} + {cost.beside_ms:.3f} ms CPU")


def show(title: str, rows: list[Row]) -> None:
    widths = [max(len(getattr(row, column)) for row in rows) for column in ("what", "measured", "promised")]
    print(f"\n{title}")
    for row in rows:
        verdict = "" if row.holds is None else "holds" if row.holds else "FALLS SHORT"
        cells = (row.what.ljust(widths[0]), row.measured.rjust(widths[1]), row.promised.ljust(widths[2]), verdict)
        print("  " + "  ".join(cells).rstrip(), flush=True)
