"""Sweeps: leftover files of writers are deleted.

A sweep lists all files of a line, which takes a while for a long one. So publishing only marks the line.
"""

from __future__ import annotations

from typing import Final

from moorage.usecases.ports import Ports

_MIN_SWEEP_INTERVAL: Final = 64


def is_sweep_due(before: int, version: int) -> bool:
    """Whether a line is swept when it reaches a version. Longer lines are swept less often, to bound the cost."""
    step = max(_MIN_SWEEP_INTERVAL, 1 << version.bit_length() >> 3)
    return before // step < version // step


async def sweep_next(ports: Ports) -> int:
    """Sweep the line that has waited longest. Returns how many lines were swept: one or none."""
    unswept = ports.local.unswept
    if not unswept:
        return 0
    (id, ref), published = next(iter(unswept.items()))
    del unswept[id, ref]
    chain = (await ports.ledger.lineage(id)).chain
    if chain:
        await ports.formats.of(chain[-1]).sweep(ports, chain[-1], ref, published)
    return 1
