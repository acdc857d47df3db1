"""Changes under an idempotency key: each is carried out once, and a retry returns the original response.

The entry of the new version also takes the key. A conflict does not end such a request: pylance rebases and requests
the next version, so the conflict must not be recorded as the response of the key. A tag or branch is more than one
entry; its key is recorded when all work is done.
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
from moorage.usecases.lance.lookup import client_location, find_table
from moorage.usecases.lance.versions import (
    NewVersion,
    TableVersion,
    commit_in,
    created_version,
    prepare_version,
    read_line,
)
from moorage.usecases.lance.work import TableLines, WorkResult, read_table, work_queue
from moorage.usecases.parts import Part
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.settling.settle import Settled, find_replay, refuse, settle

P = ParamSpec("P")
T = TypeVar("T")

Replay = Callable[[Commit], Awaitable[T]]
"""Rebuilds the response to the first request from the version that it created."""


async def carry_out_once(
    ports: Ports, errand: Errand, carry_out: Callable[[], Awaitable[T]], replay: Callable[[Settled], Awaitable[T]]
) -> T:
    """Carry out a request, or return the response to the first request under its key."""
    if errand.key is None:
        return await carry_out()
    first = await find_replay(ports, errand)
    if first is not None:
        return await replay(first)
    try:
        return await carry_out()
    except MoorageError as error:
        if not error.is_final:
            raise
        # The refusal is recorded before the response, unless the first request has succeeded in between.
        return await replay(await refuse(ports, errand, error))


async def change_once(
    ports: Ports,
    errand: Errand,
    address: Address,
    replay: Replay[T],
    work: Callable[Concatenate[JobTable, P], T],
    *given: P.args,
    **named: P.kwargs,
) -> WorkResult[T]:
    """Change the table in a worker process, after the changes that are queued before this one."""

    async def change(lines: KeyedLines) -> T:
        async with work_queue(ports, address):
            return await lines.run(work, *given, **named)

    return await run_once(ports, errand, address, replay, change, KeyedLines)


async def build_once(
    ports: Ports,
    errand: Errand,
    address: Address,
    replay: Replay[T],
    work: Callable[Concatenate[JobTable, P], T],
    *given: P.args,
    **named: P.kwargs,
) -> WorkResult[T]:
    """Build something in a worker process without queueing: it takes long and does not conflict with other changes."""
    return await run_once(ports, errand, address, replay, lambda lines: lines.run(work, *given, **named), KeyedLines)


L = TypeVar("L", bound="KeyedLines")


async def run_once(
    ports: Ports,
    errand: Errand,
    address: Address,
    replay: Replay[T],
    work: Callable[[L], Awaitable[T]],
    make_lines: Callable[[Ports, Errand, Address, Securable], L],
) -> WorkResult[T]:
    """Run work on the lines of a table, or return the result of the first request under the key."""

    async def carry_out() -> WorkResult[T]:
        table = (await find_table(ports, errand.caller, address, Privilege.MODIFY))[-1]
        lines = make_lines(ports, errand, address, table)
        try:
            return WorkResult(await work(lines), lines.transaction)
        except RequirementFailed:
            if lines.first is None:
                raise
            return await replay_first(lines.first)

    async def replay_first(first: Settled) -> WorkResult[T]:
        entry = await settled_entry(ports, first)
        return WorkResult(await replay(commit_in(entry.body.changes)), str(entry.seq))

    return await carry_out_once(ports, errand, carry_out, replay_first)


async def read_changed_table(
    ports: Ports,
    errand: Errand,
    address: Address,
    commit: Commit,
    work: Callable[Concatenate[JobTable, P], T],
    *given: P.args,
    **named: P.kwargs,
) -> T:
    """Read the table in which a request created a version. Another table may have its name by now; that is an error."""
    table = (await find_table(ports, errand.caller, address, Privilege.READ))[-1]
    if table.id != commit.table:
        raise TableNotFound(f"the table that this request changed as '{address}' no longer exists", kind="table")
    return await read_table(ports, errand, address, work, *given, **named)


async def record_when_done(
    ports: Ports, errand: Errand, address: Address, carry_out: Callable[[Errand], Awaitable[str | None]]
) -> str | None:
    """Carry out work that is more than one entry, and record the key when all of it is done.

    Returns the number of the entry that is part of the work, if there is one. The queue is held until the key is
    recorded: otherwise the same request, sent concurrently, would find the work done and be refused.
    """

    async def finish() -> str | None:
        async with work_queue(ports, address):
            seq = await carry_out(replace(errand, key=None))
            if errand.key is None:
                return seq
            table = (await find_table(ports, errand.caller, address, Privilege.BROWSE))[-1]
            done = Done(ids=(table.id,), versions=() if seq is None else (int(seq),))
            return await replay_first(await settle(ports, errand, lambda _: _as_part(done)))

    async def replay_first(first: Settled) -> str | None:
        return str(first.done.versions[0]) if first.done.versions else None

    return await carry_out_once(ports, errand, finish, replay_first)


async def _as_part(done: Done) -> Part:
    return Part(done=done)


async def settled_entry(ports: Ports, settled: Settled) -> Entry:
    """The entry of the first request."""
    seq = settled.receipt.seq
    found = await ports.ledger.entries(seq - 1, limit=1) if seq is not None else ()
    if not found:
        raise AlreadyPurged("this request was already carried out, but its entry is no longer available")
    return found[0]


class KeyedLines(TableLines):
    """The lines of a table whose next entry also takes the request's key and records how many rows change."""

    first: Settled | None = None
    """The outcome of the same request, sent concurrently, that finished first. The work is then refused."""
    _rows: dict[str, int] | None = None

    async def run(self, work: Callable[Concatenate[JobTable, P], T], *given: P.args, **named: P.kwargs) -> T:
        """Run work on the table in a worker process."""
        return await self._ports.worker_pool.run(self, client_location(self._table), work, *given, **named)

    async def add(self, staged: StagedManifest) -> Manifest:
        self._rows = staged.rows
        return await super().add(staged)

    async def _commit(self, new: NewVersion) -> TableVersion:
        async with self._ports.local.queue(queue_of(self._address)):
            # After a conflict pylance rebases and requests the next version, so no receipt may record the conflict.
            settled = await settle(
                self._ports, self._errand, lambda caller: self._prepare(caller, new), retriable=(VersionTaken,)
            )
        if not settled.parts:
            self.first = settled
            raise RequirementFailed("this request was already carried out")
        return await created_version(self._ports, settled)

    async def _prepare(self, caller: Caller, new: NewVersion) -> tuple[Part, ...]:
        return await self._parts(await self._find_same_table(caller, Privilege.MODIFY), new)

    async def _parts(self, table: Securable, new: NewVersion) -> tuple[Part, ...]:
        """The parts of the entry, the version first."""
        line = await read_line(self._ports, table, new.ref)
        return (await prepare_version(self._ports, line, new, details=self._rows),)
