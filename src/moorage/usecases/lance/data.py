"""The rows of Lance tables: insert, merge, update, delete, count and restore."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from msgspec.structs import replace

from moorage.core.entries import Commit, RevisionIs, Update
from moorage.core.securables import Securable
from moorage.datasets import rows
from moorage.datasets.rows import Merge, WriteMode, Written
from moorage.usecases.catalog.addresses import Address
from moorage.usecases.lance.idempotent import KeyedLines, change_once, read_changed_table, run_once
from moorage.usecases.lance.versions import NewVersion
from moorage.usecases.lance.work import WorkResult, read_table, work_queue
from moorage.usecases.parts import Part
from moorage.usecases.ports import Errand, Ports

__all__ = ["Merge", "WriteMode", "Written"]


async def insert(
    ports: Ports, errand: Errand, address: Address, stream: bytes, *, branch: str | None, mode: WriteMode
) -> WorkResult[Written]:
    """Append the rows of an Arrow stream, or replace all rows with them."""
    return await change_once(ports, errand, address, _written_rows, rows.write, stream, branch=branch, mode=mode)


async def _written_rows(commit: Commit) -> Written:
    counts = {what: commit.details.get(what, 0) for what in ("inserted", "updated", "deleted")}
    return Written(version=commit.version, **counts)


async def merge(
    ports: Ports, errand: Errand, address: Address, stream: bytes, how: Merge, *, branch: str | None
) -> WorkResult[Written]:
    """Merge the rows of an Arrow stream into the table."""
    return await change_once(ports, errand, address, _written_rows, rows.merge, stream, how, branch=branch)


async def update(
    ports: Ports,
    errand: Errand,
    address: Address,
    updates: Sequence[tuple[str, str]],
    predicate: str | None,
    *,
    branch: str | None,
    properties: dict[str, str] | None = None,
) -> WorkResult[Written]:
    """Update columns of rows, and set properties of the table in the same entry."""

    async def change(lines: KeyedLines) -> Written:
        async with work_queue(ports, address):
            return await lines.run(rows.update, updates, predicate, branch=branch)

    async def replay(commit: Commit) -> Written:
        version = commit.version
        return await read_changed_table(ports, errand, address, commit, rows.updated, branch=branch, version=version)

    make_lines = partial(_LinesWithProperties, properties=properties) if properties else KeyedLines
    return await run_once(ports, errand, address, replay, change, make_lines)


class _LinesWithProperties(KeyedLines):
    """The lines of a table whose next version also sets properties of the table."""

    def __init__(
        self, ports: Ports, errand: Errand, address: Address, table: Securable, *, properties: dict[str, str]
    ) -> None:
        super().__init__(ports, errand, address, table)
        self._properties = properties

    async def _parts(self, table: Securable, new: NewVersion) -> tuple[Part, ...]:
        doc = replace(table.doc, properties={**table.doc.properties, **self._properties})
        properties_part = Part(expects=(RevisionIs(table.id, table.revision),), changes=(Update(id=table.id, doc=doc),))
        return (*await super()._parts(table, new), properties_part)


async def delete(
    ports: Ports, errand: Errand, address: Address, predicate: str, *, branch: str | None
) -> WorkResult[Written]:
    return await change_once(ports, errand, address, _written_rows, rows.delete, predicate, branch=branch)


async def count(
    ports: Ports, errand: Errand, address: Address, predicate: str | None, *, branch: str | None, version: int | None
) -> int:
    return await read_table(ports, errand, address, rows.count, predicate, branch=branch, version=version)


async def restore(
    ports: Ports, errand: Errand, address: Address, version: int, *, branch: str | None
) -> WorkResult[Written]:
    """Make an earlier version the newest."""
    return await change_once(ports, errand, address, _written_rows, rows.restore, version, branch=branch)
