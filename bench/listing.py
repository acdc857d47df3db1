"""Listing 100 of a million names must cost the same as listing 100 of a thousand."""

from __future__ import annotations

import time
from pathlib import Path

from bench.report import Row
from moorage import fresh
from moorage.core.entries import Create, Draft
from moorage.core.ids import SecurableId
from moorage.core.securables import Doc, Kind, Shelf
from moorage.ledger.sqlite import SqliteLedger

_SLICE = 1_000
_ROUNDS = 200


async def listing_rows(folder: Path) -> list[Row]:
    ledger = await SqliteLedger.open(folder)
    costs = {count: await _cost(ledger, await _fill(ledger, count)) for count in (1_000, 1_000_000)}
    await ledger.close()
    ratio = costs[1_000_000] / costs[1_000]
    return [
        *(Row(f"of {count:,}", f"{cost * 1e6:,.0f} µs") for count, cost in costs.items()),
        Row("a million compared with a thousand", f"{ratio:.2f} ×", "the same (≤ 1.2 ×)", ratio <= 1.2),
    ]


async def _fill(ledger: SqliteLedger, count: int) -> SecurableId:
    catalog = fresh.securable_id()
    await _append(ledger, [_create(catalog, Kind.CATALOG, ledger.root, f"names-{count}")])
    for start in range(0, count, _SLICE):
        await _append(
            ledger,
            [
                _create(fresh.securable_id(), Kind.NAMESPACE, catalog, f"name-{n:09}")
                for n in range(start, start + _SLICE)
            ],
        )
    return catalog


async def _cost(ledger: SqliteLedger, parent: SecurableId) -> float:
    """Returns the CPU seconds per page. Each page starts at another position in the list."""
    keys = [f"name-{n:09}" for n in range(0, _ROUNDS * 4, 4)]
    await ledger.children(parent, Shelf.NAMESPACE, after=keys[0])
    before = time.process_time()
    for key in keys:
        await ledger.children(parent, Shelf.NAMESPACE, after=key, limit=100)
    return (time.process_time() - before) / _ROUNDS


def _create(id: SecurableId, kind: Kind, parent: SecurableId, name: str) -> Create:
    return Create(id=id, kind=kind, parent=parent, name=name, owner="bench", doc=Doc())


async def _append(ledger: SqliteLedger, changes: list[Create]) -> None:
    await ledger.append(Draft(id=fresh.draft_id(), caller="bench", api="bench", request="fill", changes=tuple(changes)))
