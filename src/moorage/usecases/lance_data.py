"""The rows of Lance tables: written, merged, changed, deleted, counted."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from moorage.core.entries import Commit, RevisionIs, Update
from moorage.core.privileges import Privilege
from moorage.core.securables import Securable
from moorage.datasets import rows
from moorage.datasets.rows import Merge, WriteMode, Written
from moorage.usecases.addresses import Address
from moorage.usecases.lance_found import find_table
from moorage.usecases.lance_keyed import EntryLines, entry_of, once
from moorage.usecases.lance_versions import NewVersion
from moorage.usecases.lance_work import Worked, change_table, read_table, turn_at
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.settle import Part, Settled

__all__ = ["Merge", "WriteMode", "Written"]


async def insert(
    ports: Ports, errand: Errand, address: Address, stream: bytes, *, branch: str | None, mode: WriteMode
) -> Worked[Written]:
    """Add the rows of an Arrow stream, or put them in the place of all others. Under a key this is done once."""

    async def carry_out() -> Worked[Written]:
        table = (await find_table(ports, errand.caller, address, Privilege.MODIFY))[-1]
        lines = EntryLines(ports, errand, address, table)
        async with turn_at(address):
            done = await lines.run(rows.write, stream, branch=branch, mode=mode)
        return Worked(done, lines.transaction)

    return await once(ports, errand, carry_out, lambda first: _inserted_first(ports, first))


async def _inserted_first(ports: Ports, first: Settled) -> Worked[Written]:
    """The answer to the first of several requests under one key."""
    entry = await entry_of(ports, first)
    commit = next(change for change in entry.story.changes if isinstance(change, Commit))
    done = Written(version=commit.version, inserted=commit.details.get("inserted", 0))
    return Worked(done, str(entry.seq))


async def merge(
    ports: Ports, errand: Errand, address: Address, stream: bytes, how: Merge, *, branch: str | None
) -> Worked[Written]:
    """Let the rows of an Arrow stream take the place of those that they match."""
    return await change_table(ports, errand, address, rows.merge, stream, how, branch=branch)


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
    if properties:
        table = (await find_table(ports, errand.caller, address, Privilege.MODIFY))[-1]
        lines = _WithProperties(ports, errand, address, table, properties)
        async with turn_at(address):
            done = await lines.run(rows.update, updates, predicate, branch=branch)
        return Worked(done, lines.transaction)
    return await change_table(ports, errand, address, rows.update, updates, predicate, branch=branch)


class _WithProperties(EntryLines):
    """Whose next version also sets properties of the table."""

    def __init__(
        self, ports: Ports, errand: Errand, address: Address, table: Securable, properties: dict[str, str]
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
    return await change_table(ports, errand, address, rows.delete, predicate, branch=branch)


async def count(
    ports: Ports, errand: Errand, address: Address, predicate: str | None, *, branch: str | None, version: int | None
) -> int:
    return await read_table(ports, errand, address, rows.count, predicate, branch=branch, version=version)


async def restore(
    ports: Ports, errand: Errand, address: Address, version: int, *, branch: str | None
) -> Worked[Written]:
    """Make an earlier version the newest."""
    return await change_table(ports, errand, address, rows.restore, version, branch=branch)
