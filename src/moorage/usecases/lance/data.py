"""The rows of Lance tables: written, merged, changed, deleted, counted."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from msgspec.structs import replace

from moorage.core.entries import Commit, RevisionIs, Update
from moorage.core.securables import Securable
from moorage.datasets import rows
from moorage.datasets.rows import Merge, WriteMode, Written
from moorage.usecases.catalog.addresses import Address
from moorage.usecases.lance.idempotent import EntryLines, change_once, read_again, work_once
from moorage.usecases.lance.versions import NewVersion
from moorage.usecases.lance.work import Worked, read_table, work_queue
from moorage.usecases.parts import Part
from moorage.usecases.ports import Errand, Ports

__all__ = ["Merge", "WriteMode", "Written"]


async def insert(
    ports: Ports, errand: Errand, address: Address, stream: bytes, *, branch: str | None, mode: WriteMode
) -> Worked[Written]:
    """Add the rows of an Arrow stream, or put them in the place of all others."""
    return await change_once(ports, errand, address, _as_written, rows.write, stream, branch=branch, mode=mode)


async def _as_written(commit: Commit) -> Written:
    counts = {what: commit.details.get(what, 0) for what in ("inserted", "updated", "deleted")}
    return Written(version=commit.version, **counts)


async def merge(
    ports: Ports, errand: Errand, address: Address, stream: bytes, how: Merge, *, branch: str | None
) -> Worked[Written]:
    """Let the rows of an Arrow stream take the place of those that they match."""
    return await change_once(ports, errand, address, _as_written, rows.merge, stream, how, branch=branch)


async def update(
    ports: Ports,
    errand: Errand,
    address: Address,
    updates: Sequence[tuple[str, str]],
    predicate: str | None,
    *,
    branch: str | None,
    properties: dict[str, str] | None = None,
) -> Worked[Written]:
    """Give columns other values, and the table other properties in the same entry."""

    async def change(lines: EntryLines) -> Written:
        async with work_queue(ports, address):
            return await lines.run(rows.update, updates, predicate, branch=branch)

    async def retell(commit: Commit) -> Written:
        version = commit.version
        return await read_again(ports, errand, address, commit, rows.updated, branch=branch, version=version)

    lines_of = partial(_WithProperties, properties=properties) if properties else EntryLines
    return await work_once(ports, errand, address, retell, change, lines_of)


class _WithProperties(EntryLines):
    """Whose next version also sets properties of the table."""

    def __init__(
        self, ports: Ports, errand: Errand, address: Address, table: Securable, *, properties: dict[str, str]
    ) -> None:
        super().__init__(ports, errand, address, table)
        self._properties = properties

    async def _parts(self, table: Securable, new: NewVersion) -> tuple[Part, ...]:
        doc = replace(table.doc, properties={**table.doc.properties, **self._properties})
        described = Part(expects=(RevisionIs(table.id, table.revision),), changes=(Update(id=table.id, doc=doc),))
        return (*await super()._parts(table, new), described)


async def delete(
    ports: Ports, errand: Errand, address: Address, predicate: str, *, branch: str | None
) -> Worked[Written]:
    return await change_once(ports, errand, address, _as_written, rows.delete, predicate, branch=branch)


async def count(
    ports: Ports, errand: Errand, address: Address, predicate: str | None, *, branch: str | None, version: int | None
) -> int:
    return await read_table(ports, errand, address, rows.count, predicate, branch=branch, version=version)


async def restore(
    ports: Ports, errand: Errand, address: Address, version: int, *, branch: str | None
) -> Worked[Written]:
    """Make an earlier version the newest."""
    return await change_once(ports, errand, address, _as_written, rows.restore, version, branch=branch)
