"""Group commit: commits that wait for one table at the same time become one version, with a receipt for each.

A group makes one document, one metadata file and one entry. Each commit is applied to the result of the previous one.
A commit whose requirement fails is refused alone. The refusal is sent after the others are appended, because until then
it is unknown whether they succeed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import NamedTuple

from msgspec.structs import replace

from moorage.core.callers import Caller
from moorage.core.entries import JobHeld, JobState
from moorage.core.errors import MoorageError, RequirementFailed
from moorage.formats.iceberg.requirements import is_creation, require_known
from moorage.ledger.port import Stale
from moorage.usecases.catalog.addresses import queue_of
from moorage.usecases.iceberg.commits import TableCommit, prepare_commit, prepare_group
from moorage.usecases.iceberg.relations import Loaded, cache_settled, load_settled
from moorage.usecases.local_state import ConflictPacer, QueueKey, TableQueue
from moorage.usecases.parts import Part
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.settling.settle import Settled, carry_out, settle

MAX_GROUP_SIZE = 64
_RESERVED_SECONDS = 3.0
"""How long other commits to a table wait for a job whose commit conflicted. It prepares its commit again meanwhile."""


class _Waiting(NamedTuple):
    errand: Errand
    commit: TableCommit
    answer: asyncio.Future[Settled]

    def may_join(self, first: _Waiting) -> bool:
        """Only commits of one caller may join, because an entry has one caller. A creation is never part of a group."""
        mine, its = self.errand, first.errand
        same = mine.caller == its.caller and mine.api == its.api and mine.job == its.job
        return same and not any(is_creation(each.commit.requirements) for each in (self, first))


class _CommitQueue(QueueKey, frozen=True):
    """Commits to one table that wait for the next group."""

    table: TableQueue


class _Waiters:
    """The commits that wait for one table, and the pacer of its conflicts. It exists while a request refers to it."""

    __slots__ = ("__weakref__", "_turn", "is_served", "pacer", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[_Waiting] = deque()
        self.is_served = False
        self.pacer = ConflictPacer()
        self._turn: asyncio.Future[None] | None = None

    async def wait_for_job(self) -> None:
        """Wait while the next commit is reserved for a job."""
        while self._turn is not None:
            await asyncio.wait((self._turn,))

    def reserve(self) -> None:
        """Reserve the next commit for the job that conflicted, for a short time.

        A rewrite takes longer to prepare than an append. Without its turn it would conflict with every one of them.
        """
        self.end_reservation()
        loop = asyncio.get_running_loop()
        turn = self._turn = loop.create_future()
        # The timer also keeps this object alive until then.
        loop.call_later(_RESERVED_SECONDS, self._end, turn)

    def end_reservation(self) -> None:
        if self._turn is not None:
            self._end(self._turn)

    def _end(self, turn: asyncio.Future[None]) -> None:
        if not turn.done():
            turn.set_result(None)
        if self._turn is turn:
            self._turn = None


async def commit_table(ports: Ports, errand: Errand, commit: TableCommit) -> Loaded:
    """Apply the updates as the table's next version, or create the table with them."""
    require_known(commit.requirements)
    waiters = ports.local.shared(_CommitQueue(queue_of(commit.address)), _Waiters)
    if errand.job is None:
        await waiters.wait_for_job()
    try:
        settled = await _enqueue(ports, errand, commit, waiters)
    except RequirementFailed:
        if errand.job is None:
            await waiters.pacer.wait(lambda: waiters.is_served)
        elif await _is_running(ports, errand.job):
            waiters.reserve()
        raise
    if errand.job is not None:
        waiters.end_reservation()
    return await load_settled(ports, settled)


async def _is_running(ports: Ports, held: JobHeld) -> bool:
    """Whether the job exists and a worker has it: no other request may delay the commits of others."""
    job = await ports.ledger.job(held.job)
    return job is not None and job.state is JobState.RUNNING


async def _enqueue(ports: Ports, errand: Errand, commit: TableCommit, waiters: _Waiters) -> Settled:
    if not waiters.is_served:
        return await _commit_first(ports, errand, commit, waiters)
    answer: asyncio.Future[Settled] = asyncio.get_running_loop().create_future()
    waiters.waiting.append(_Waiting(errand, commit, answer))
    return await answer


async def _commit_first(ports: Ports, errand: Errand, commit: TableCommit, waiters: _Waiters) -> Settled:
    """Commit alone, because no other commit waits. Commits that arrive before the end are served afterwards.

    A background task serves them, because this request may be cancelled.
    """
    waiters.is_served = True
    queue = queue_of(commit.address)
    try:
        async with ports.local.queue(queue):
            settled = await _settle_alone(ports, errand, commit)
            waiters.pacer.record_version()
            return settled
    finally:
        if waiters.waiting:
            _ = ports.local.start(_serve(ports, queue, waiters))
        else:
            waiters.is_served = False


async def _serve(ports: Ports, queue: TableQueue, waiters: _Waiters) -> None:
    group: list[_Waiting] = []
    try:
        while waiters.waiting:
            async with ports.local.queue(queue):
                group = _next_group(waiters.waiting)
                try:
                    await _settle_group(ports, group, waiters.pacer)
                except Exception as error:  # noqa: BLE001 - after any error, the remaining requests must be served
                    for each in group:
                        _answer(each, error)
    finally:
        waiters.is_served = False
        for each in (*group, *waiters.waiting):  # none, unless the server is being stopped
            each.answer.cancel()


def _next_group(waiting: deque[_Waiting]) -> list[_Waiting]:
    """The commits that may join the first one. The others keep their order."""
    group, others = list[_Waiting](), list[_Waiting]()
    while waiting and len(group) < MAX_GROUP_SIZE:
        each = waiting.popleft()
        if each.answer.done():  # its client has disconnected
            continue
        if not group or each.may_join(group[0]):
            group.append(each)
        else:
            others.append(each)
    waiting.extendleft(reversed(others))
    return group


async def _settle_group(ports: Ports, group: list[_Waiting], pacer: ConflictPacer) -> None:
    together, alone = await _split_by_key(ports, group)
    try:
        if len(together) > 1:
            together = await _settle_together(ports, together)
            pacer.record_version()
    except Stale:
        pass  # another request used one of their keys in between: each is settled alone
    except MoorageError as error:
        if not error.is_final:
            raise
        # Nothing was appended, and it is unknown which request caused the error: each is settled alone.
    for each in (*together, *alone):
        try:
            _answer(each, await _settle_alone(ports, each.errand, each.commit))
            pacer.record_version()
        except MoorageError as error:
            _answer(each, error)


async def _split_by_key(ports: Ports, group: list[_Waiting]) -> tuple[list[_Waiting], list[_Waiting]]:
    """The commits that may form a group, and those whose key was used before or by another commit of the group."""
    together, alone, keys = list[_Waiting](), list[_Waiting](), set[str]()
    for each in group:
        key, caller = each.errand.key, each.errand.caller.id
        if key is None:
            together.append(each)
        elif key.value in keys or await ports.ledger.receipt(caller, key.value) is not None:
            alone.append(each)
        else:
            together.append(each)
            keys.add(key.value)
    return together, alone


async def _settle_together(ports: Ports, group: list[_Waiting]) -> list[_Waiting]:
    """Settle a group and return the refused commits that have a key: each refusal must be recorded under its key."""
    requests = [each.errand.request for each in group]
    commits = [each.commit for each in group]

    async def prepare(caller: Caller) -> Part:
        part, refusals = await prepare_group(ports, caller, commits, requests)
        joined = (each for each, refusal in zip(group, refusals, strict=True) if refusal is None)
        joined_keys = tuple(each.errand.key for each in joined if each.errand.key is not None)
        return replace(part, keys=joined_keys, result=(part.result, refusals))

    settled = await carry_out(ports, replace(group[0].errand, key=None), prepare)
    part = settled.parts[0]
    metadata, refusals = part.result
    settled = replace(settled, parts=(replace(part, result=metadata),))
    cache_settled(ports, settled)
    left = []
    for each, refusal in zip(group, refusals, strict=True):
        if refusal is not None and each.errand.key is not None:
            left.append(each)
        else:
            _answer(each, refusal or settled)
    return left


async def _settle_alone(ports: Ports, errand: Errand, commit: TableCommit) -> Settled:
    settled = await settle(ports, errand, lambda caller: prepare_commit(ports, caller, commit))
    cache_settled(ports, settled)  # now, because the next commit in the queue starts before this one is answered
    return settled


def _answer(waiting: _Waiting, outcome: Settled | Exception) -> None:
    if waiting.answer.done():
        return
    if isinstance(outcome, Settled):
        waiting.answer.set_result(outcome)
    else:
        waiting.answer.set_exception(outcome)
