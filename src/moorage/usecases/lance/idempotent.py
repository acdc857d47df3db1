"""What changes a table under an idempotency key is done once, and a repeated request gets its first answer.

The key is claimed by the entry of the version itself. Losing a race is not the end of such a request: pylance
rebases and asks for the next version, so that refusal must not become the answer that the key remembers.
What an entry alone does not bring about, tags and branches, claims its key when all of it is done.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Concatenate, ParamSpec, TypeVar

from msgspec.structs import replace

from moorage.core.callers import Caller
from moorage.core.entries import Commit, Done, Entry
from moorage.core.errors import AlreadyPurged, MoorageError, RequirementFailed, TableNotFound, VersionTaken
from moorage.core.privileges import Privilege
from moorage.core.securables import Securable
from moorage.datasets.job_table import JobTable
from moorage.datasets.messages import Manifest, StagedManifest
from moorage.usecases.catalog.addresses import Address, queue_of
from moorage.usecases.lance.lookup import find_table, location_of
from moorage.usecases.lance.versions import (
    NewVersion,
    TableVersion,
    commit_in,
    just_made,
    line_of,
    prepare_version,
)
from moorage.usecases.lance.work import TableLines, Worked, read_table, work_queue
from moorage.usecases.parts import Part
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.settling.settle import Settled, find_first, refuse, settle

P = ParamSpec("P")
T = TypeVar("T")

Retell = Callable[[Commit], Awaitable[T]]
"""What the first request was answered, told from the version that it made."""


async def once(
    ports: Ports, errand: Errand, carry_out: Callable[[], Awaitable[T]], retell: Callable[[Settled], Awaitable[T]]
) -> T:
    """Carry out a request, or return what the first request under its key returned."""
    if errand.key is None:
        return await carry_out()
    first = await find_first(ports, errand)
    if first is not None:
        return await retell(first)
    try:
        return await carry_out()
    except MoorageError as error:
        if not error.is_final:
            raise
        # Recorded before it is answered, unless the first sending has succeeded in between.
        return await retell(await refuse(ports, errand, error))


async def change_once(
    ports: Ports,
    errand: Errand,
    address: Address,
    retell: Retell[T],
    work: Callable[Concatenate[JobTable, P], T],
    *given: P.args,
    **named: P.kwargs,
) -> Worked[T]:
    """Let a worker change the table, when it is its turn."""

    async def change(lines: EntryLines) -> T:
        async with work_queue(ports, address):
            return await lines.run(work, *given, **named)

    return await work_once(ports, errand, address, retell, change, EntryLines)


async def add_once(
    ports: Ports,
    errand: Errand,
    address: Address,
    retell: Retell[T],
    work: Callable[Concatenate[JobTable, P], T],
    *given: P.args,
    **named: P.kwargs,
) -> Worked[T]:
    """Let a worker build something beside others that change the table: it takes long, and is in nobody's way."""
    return await work_once(ports, errand, address, retell, lambda lines: lines.run(work, *given, **named), EntryLines)


L = TypeVar("L", bound="EntryLines")


async def work_once(
    ports: Ports,
    errand: Errand,
    address: Address,
    retell: Retell[T],
    work: Callable[[L], Awaitable[T]],
    lines_of: Callable[[Ports, Errand, Address, Securable], L],
) -> Worked[T]:
    """Work on the lines of a table, or tell what came of it the first time."""

    async def carry_out() -> Worked[T]:
        table = (await find_table(ports, errand.caller, address, Privilege.MODIFY))[-1]
        lines = lines_of(ports, errand, address, table)
        try:
            return Worked(await work(lines), lines.transaction)
        except RequirementFailed:
            if lines.first is None:
                raise
            return await tell(lines.first)

    async def tell(first: Settled) -> Worked[T]:
        entry = await entry_of(ports, first)
        return Worked(await retell(commit_in(entry.body.changes)), str(entry.seq))

    return await once(ports, errand, carry_out, tell)


async def read_again(
    ports: Ports,
    errand: Errand,
    address: Address,
    commit: Commit,
    work: Callable[Concatenate[JobTable, P], T],
    *given: P.args,
    **named: P.kwargs,
) -> T:
    """Read the table in which a request made a version, and no other that bears its name by now."""
    table = (await find_table(ports, errand.caller, address, Privilege.READ))[-1]
    if table.id != commit.table:
        raise TableNotFound(f"the table that was '{address}' then is gone", kind="table")
    return await read_table(ports, errand, address, work, *given, **named)


async def finish_once(
    ports: Ports, errand: Errand, address: Address, carry_out: Callable[[Errand], Awaitable[str | None]]
) -> str | None:
    """Do what no entry alone brings about, and remember the key when it is done.

    It returns the number of the entry that is a part of it, if there is one. The turn lasts until the key is
    remembered: the same request, sent at the same time, would find the work done and be refused for it.
    """

    async def finish() -> str | None:
        async with work_queue(ports, address):
            seq = await carry_out(replace(errand, key=None))
            if errand.key is None:
                return seq
            table = (await find_table(ports, errand.caller, address, Privilege.BROWSE))[-1]
            done = Done(ids=(table.id,), versions=() if seq is None else (int(seq),))
            return await tell(await settle(ports, errand, lambda _: _being(done)))

    async def tell(first: Settled) -> str | None:
        return str(first.done.versions[0]) if first.done.versions else None

    return await once(ports, errand, finish, tell)


async def _being(done: Done) -> Part:
    return Part(done=done)


async def entry_of(ports: Ports, settled: Settled) -> Entry:
    """The entry that the first request became."""
    seq = settled.receipt.seq
    found = await ports.ledger.entries(seq - 1, limit=1) if seq is not None else ()
    if not found:
        raise AlreadyPurged("this request was carried out before, and nothing more is known of it")
    return found[0]


class EntryLines(TableLines):
    """The lines of a table whose next version is one entry with more: the key of the request, how many rows change."""

    first: Settled | None = None
    """What the same request, sent at the same time, has become in between. Then the work is refused."""
    _rows: dict[str, int] | None = None

    async def run(self, work: Callable[Concatenate[JobTable, P], T], *given: P.args, **named: P.kwargs) -> T:
        """Let a worker do this."""
        return await self._ports.worker_pool.run(self, location_of(self._table), work, *given, **named)

    async def add(self, staged: StagedManifest) -> Manifest:
        self._rows = staged.rows
        return await super().add(staged)

    async def _commit(self, new: NewVersion) -> TableVersion:
        async with self._ports.local.queue(queue_of(self._address)):
            # After a lost race pylance rebases and asks for the next version, so no receipt may record the conflict.
            settled = await settle(
                self._ports, self._errand, lambda caller: self._prepare(caller, new), retriable=(VersionTaken,)
            )
        if not settled.parts:
            self.first = settled
            raise RequirementFailed("this request is carried out already")
        return await just_made(self._ports, settled)

    async def _prepare(self, caller: Caller, new: NewVersion) -> tuple[Part, ...]:
        return await self._parts(await self._find_own(caller, Privilege.MODIFY), new)

    async def _parts(self, table: Securable, new: NewVersion) -> tuple[Part, ...]:
        """What the entry is made of, the version first."""
        line = await line_of(self._ports, table, new.ref)
        return (await prepare_version(self._ports, line, new, details=self._rows),)
