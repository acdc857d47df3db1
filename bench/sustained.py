"""Sixteen writers at full speed for a while: publishing keeps up, and the queue of unpublished versions stays short.

`python -m bench.sustained --seconds 600` measures ten minutes of each format; `make bench` measures a few seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from bench.delta import UNITY, DeltaLoad
from bench.iceberg import OURS as ICEBERG
from bench.iceberg import IcebergLoad
from bench.lance import OURS as LANCE
from bench.lance import LanceLoad
from bench.lines import Line, Request, Watch
from bench.load import Server, serving
from bench.report import Row, show

_CLIENTS = 16
_SHORT_SECONDS = 15.0
_LONGEST_WAIT_S = 10.0
_SAMPLE_S = 0.25

_LOADS: Final[dict[str, Callable[[Server], tuple[DeltaLoad | IcebergLoad | LanceLoad, str]]]] = {
    "Delta": lambda server: (DeltaLoad(server), UNITY),
    "Iceberg": lambda server: (IcebergLoad(server, ICEBERG), ICEBERG),
    "Lance": lambda server: (LanceLoad(server, LANCE), LANCE),
}

Versions = Callable[[int], Request]
"""Returns the request that commits a version of one table, and stages the file that it names."""


class Sample(msgspec.Struct, frozen=True):
    at_s: float
    unpublished: int
    waited_s: float
    """The age of the oldest of them."""


class Publishing(msgspec.Struct, frozen=True):
    """What was observed while writers were busy."""

    committed: int
    per_second: float
    cpu_ms: float
    """Per version, with chores."""
    samples: list[Sample]
    emptied_s: float
    """From the last commit until all versions were published."""

    def row(self, what: str) -> Row:
        late = self.samples[len(self.samples) // 2 :]
        waited, queued = max(each.waited_s for each in late), max(each.unpublished for each in late)
        took = self.samples[-1].at_s
        return Row(
            f"{what}, {took:.0f} s",
            f"{self.committed:,} versions, {self.per_second:,.0f}/s, {self.cpu_ms:.2f} ms CPU, "
            f"at most {queued:,} wait, the oldest for {waited:.1f} s, empty after {self.emptied_s:.1f} s",
            f"≤ {_LONGEST_WAIT_S:.0f} s",
            waited <= _LONGEST_WAIT_S,
        )


class _Queue:
    """The versions that are not yet published, read from the server's own database."""

    def __init__(self, data: Path) -> None:
        self._database = sqlite3.connect(f"file:{data / 'ledger.db'}?mode=ro", uri=True, check_same_thread=False)

    def look(self) -> tuple[int, float]:
        count, oldest = self._database.execute("select count(*), min(at_ms) from staged").fetchone()
        return count, 0.0 if oldest is None else max(0.0, time.time() - oldest / 1000)


async def _observe(
    server: Server, queue: _Queue, prefix: str, tables: Sequence[Versions], seconds: float
) -> Publishing:
    committed, samples, began = 0, list[Sample](), time.monotonic()

    async def write(line: Line, mine: Sequence[Versions]) -> None:
        nonlocal committed
        version = 0
        while time.monotonic() - began < seconds:
            version += 1
            for each in mine:
                await line.done(*each(version))
                committed += 1

    async def watch_queue() -> None:
        while time.monotonic() - began < seconds:
            samples.append(Sample(time.monotonic() - began, *await asyncio.to_thread(queue.look)))
            await asyncio.sleep(_SAMPLE_S)

    lines = [await Line(server.url, prefix).open() for _ in range(_CLIENTS)]
    watch = Watch(server)
    await asyncio.gather(watch_queue(), *(write(line, tables[n::_CLIENTS]) for n, line in enumerate(lines)))
    rate, stopped = committed / (time.monotonic() - began), time.monotonic()
    while queue.look()[0]:  # noqa: ASYNC110 - the database sends no event
        await asyncio.sleep(_SAMPLE_S)
    cpu_ms = watch.cost("", _CLIENTS, committed).cpu_ms
    return Publishing(committed, rate, cpu_ms, samples, time.monotonic() - stopped)


async def _measure(server: Server, data: Path, name: str, seconds: float) -> Publishing:
    load, prefix = _LOADS[name](server)
    await (await Line(server.url, UNITY).open()).ask("POST", "/catalogs", {"name": "bench"})
    return await _observe(server, _Queue(data), prefix, await load.tables("busy"), seconds)


def sustained_rows(folder: Path, seconds: float = _SHORT_SECONDS, formats: Iterable[str] = _LOADS) -> list[Row]:
    """Each format has a server of its own. Its files are deleted before the next: ten minutes make some 20 GB."""
    rows = []
    for name in formats:
        data = folder / name.lower()
        with serving(data) as server:
            row = asyncio.run(_measure(server, data, name, seconds)).row(name)
        print(f"{row.what}: {row.measured}", file=sys.stderr, flush=True)  # each format may take ten minutes
        shutil.rmtree(data)
        rows.append(row)
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.sustained", description=__doc__)
    parser.add_argument("--seconds", type=float, default=_SHORT_SECONDS, help="of writing, for each format")
    parser.add_argument("formats", nargs="*", metavar="FORMAT", help=f"some of {', '.join(_LOADS)}; all by default")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        rows = sustained_rows(Path(name), given.seconds, given.formats or _LOADS)
    show("Sixteen writers at full speed: versions that wait to be published", rows)
    return 0 if all(row.holds for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
