"""Statistics of files that writers added without any: the server reads them in the footers of the files.

The protocol allows it: "additional statistics can be added for a path already present in the table by adding it again".
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from msgspec.structs import replace

from moorage.core.callers import Caller
from moorage.core.entries import Done
from moorage.core.errors import InvalidInput, TableNotFound
from moorage.core.rewrites import StatisticsAdded
from moorage.core.securables import Securable
from moorage.formats.delta.file_actions import AddFile
from moorage.formats.delta.offers import Target, commit_info
from moorage.formats.delta.shadow import absolute, encode, hadoop_location
from moorage.usecases.catalog.addresses import find_by_id
from moorage.usecases.delta.files import table_ref
from moorage.usecases.delta.lookup import is_managed, require_head, state_of
from moorage.usecases.delta.shadows import commit_part, target_of
from moorage.usecases.local_state import TableIdQueue
from moorage.usecases.parts import Part
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.settling.settle import settle

if TYPE_CHECKING:
    from collections.abc import Sequence

    from moorage.snapshots.bounds import Column
    from moorage.snapshots.snapshot import Snapshot

OPERATION: Final = "COMPUTE STATS"
"""The name that Delta's own clients give to such a commit."""
STEP_FILES: Final = 1000
_AT_ONCE: Final = 16

Found = dict[str, tuple[AddFile, str]]
"""Files without statistics, by their paths, with the statistics in their footers."""


async def add_statistics(ports: Ports, errand: Errand, table: Securable, after: str | None) -> StatisticsAdded:
    """Commit the statistics of the next files that have none, in the order of their paths."""
    # Not at the start: they import Arrow, which a server without Delta tables does not need.
    from moorage.snapshots.missing_statistics import files_without_statistics
    from moorage.snapshots.parsed_columns import indexed_columns

    if not is_managed(table):
        raise InvalidInput(f"'{table.name}' is not a managed Delta table; its clients write statistics", field="table")
    snapshot = await ports.snapshots.at(await table_ref(ports, table))
    missing = await asyncio.to_thread(files_without_statistics, snapshot, after=after, limit=STEP_FILES)
    columns = [column for column, _ in indexed_columns(snapshot.schema, snapshot.metadata)]
    found = await _read_footers(ports, table, missing.files, columns)
    version, files = None, 0
    if found:
        async with ports.local.race(TableIdQueue(table.id)):
            settled = await settle(
                ports, errand, lambda caller: _prepare(ports, caller, table, found, snapshot.version)
            )
        version = next(iter(settled.done.versions), None)
        files = settled.parts[0].result if settled.parts and version is not None else 0
    return StatisticsAdded(
        missing=missing.total,
        files=files,
        unreadable=len(missing.files) - len(found),
        version=version,
        after=None if missing.is_last else missing.files[-1].path,
    )


async def _read_footers(ports: Ports, table: Securable, files: Sequence[AddFile], columns: Sequence[Column]) -> Found:
    slots = asyncio.Semaphore(_AT_ONCE)

    async def read(file: AddFile) -> str | None:
        async with slots:
            return await _read_footer(ports, table.doc.location or "", file, columns)

    texts = await asyncio.gather(*map(read, files))
    return {file.path: (file, text) for file, text in zip(files, texts, strict=True) if text is not None}


async def _read_footer(ports: Ports, location: str, file: AddFile, columns: Sequence[Column]) -> str | None:
    from moorage.snapshots.footer_statistics import FIRST_READ, MAX_FOOTER, footer_bytes, statistics_of

    root = hadoop_location(location)
    path = unquote(absolute(file.path, root)).removeprefix(unquote(root))

    async def last(count: int) -> bytes:
        return await ports.storage.read_range(location, path, start=max(file.size - count, 0), end=file.size) or b""

    tail = await last(FIRST_READ)
    needed = footer_bytes(tail)
    if needed is None or needed > MAX_FOOTER:
        return None
    footer = tail if needed <= len(tail) else await last(needed)
    return await asyncio.to_thread(statistics_of, footer, columns, is_tight=file.deletion_vector is None)


async def _prepare(ports: Ports, caller: Caller, table: Securable, found: Found, base_version: int) -> Part:
    """Add the files again that are still what they were when their footers were read."""
    chain = await find_by_id(ports.ledger, table.id)
    if not chain:
        raise TableNotFound(f"no table has the id '{table.id}'; it was dropped", id=table.id)
    table = chain[-1]
    if state_of(ports, table).last_update_version > base_version:
        return Part(done=Done())  # other columns may have statistics now; the next attempt reads them
    snapshot = await ports.snapshots.at(await table_ref(ports, table), require_head(table).version)
    target = target_of(ports, table, snapshot, folder="")
    files = await asyncio.to_thread(_unchanged, snapshot, found, target)
    if not files:
        return Part(done=Done())
    part = await commit_part(ports, table, _commit_of(files, found, target), target, upkeep=True)
    return replace(part, result=len(files))


def _unchanged(snapshot: Snapshot, found: Found, target: Target) -> list[AddFile]:
    from moorage.snapshots.missing_statistics import still_without_statistics

    same = [file for file in still_without_statistics(snapshot, found) if file == found[file.path][0]]
    # Files that are older than row tracking have no row ids yet, and may not be added without.
    return [file for file in same if file.base_row_id is not None] if target.tracks_rows else same


def _commit_of(files: Sequence[AddFile], found: Found, target: Target) -> bytes:
    info = commit_info({"operation": OPERATION, "operationParameters": {"predicate": "[]"}}, target, blind=False)
    added = [{"add": replace(file, stats=found[file.path][1], data_change=False)} for file in files]
    return b"".join(encode(action) + b"\n" for action in ({"commitInfo": info}, *added))
