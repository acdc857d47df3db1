"""A crowd at one table: commits that wait at the same time become one version, with a receipt for each.

One document, one metadata file, one entry, however many they are. Each is applied to what those before it made;
whoever's requirement fails leaves alone, and hears so only once the others are history: before that nobody
knows whether they will be.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import NamedTuple

from msgspec.structs import replace

from moorage.core.errors import MoorageError, RequirementFailed
from moorage.formats.iceberg.requirements import is_creation, require_known
from moorage.ledger.port import Stale
from moorage.usecases.iceberg.commits import TableCommit, prepare_commit, prepare_together
from moorage.usecases.iceberg.relations import Loaded, load_settled, remember_settled
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.settling.settle import Part, Settled, carry_out, settle
from moorage.usecases.settling.turns import Losers, TurnKey, take_turn, turn_key

LARGEST_GROUP = 64


class _Waiting(NamedTuple):
    errand: Errand
    commit: TableCommit
    answer: asyncio.Future[Settled]

    def may_join(self, first: _Waiting) -> bool:
        """An entry has one caller, so only commits of the same one share it. A creation has nothing to share."""
        same = self.errand.caller == first.errand.caller and self.errand.api == first.errand.api
        return same and not any(is_creation(each.commit.requirements) for each in (self, first))


class _Crowd:
    """Who is at one table: those that wait for their turn, and those that lost and wait to hear it."""

    __slots__ = ("is_served", "losers", "people", "waiting")

    def __init__(self) -> None:
        self.people = 0
        self.waiting: deque[_Waiting] = deque()
        self.is_served = False
        self.losers = Losers()


_crowds: dict[tuple[int, TurnKey], _Crowd] = {}
"""By server and table; only while somebody is there."""
_serving: set[asyncio.Task[None]] = set()


async def commit_table(ports: Ports, errand: Errand, commit: TableCommit) -> Loaded:
    """Apply the updates as the table's next version, or create the table with them."""
    require_known(commit.requirements)
    return await load_settled(ports, await _stand_in_line(ports, errand, commit))


async def _stand_in_line(ports: Ports, errand: Errand, commit: TableCommit) -> Settled:
    turn = turn_key(commit.address)
    key = id(ports), turn
    crowd = _crowds.setdefault(key, _Crowd())
    crowd.people += 1
    try:
        if not crowd.is_served:
            return await _go_first(ports, errand, commit, turn, crowd)
        answer: asyncio.Future[Settled] = asyncio.get_running_loop().create_future()
        crowd.waiting.append(_Waiting(errand, commit, answer))
        return await answer
    except RequirementFailed:
        await crowd.losers.hear_in_turn(lambda: crowd.is_served)
        raise
    finally:
        crowd.people -= 1
        if not crowd.people:
            del _crowds[key]


async def _go_first(ports: Ports, errand: Errand, commit: TableCommit, turn: TurnKey, crowd: _Crowd) -> Settled:
    """Nobody is there: commit alone. Whoever comes meanwhile is served afterwards.

    By a task, because this request may be ended from outside.
    """
    crowd.is_served = True
    try:
        async with take_turn(turn):
            settled = await _settle_alone(ports, errand, commit)
            crowd.losers.moved()
            return settled
    finally:
        if crowd.waiting:
            task = asyncio.create_task(_serve(ports, turn, crowd))
            _serving.add(task)
            task.add_done_callback(_serving.discard)
        else:
            crowd.is_served = False


async def _serve(ports: Ports, turn: TurnKey, crowd: _Crowd) -> None:
    group: list[_Waiting] = []
    try:
        while crowd.waiting:
            async with take_turn(turn):
                group = _next_group(crowd.waiting)
                try:
                    await _settle_group(ports, group, crowd)
                except Exception as error:  # noqa: BLE001 - whatever it is, those behind must be served
                    for each in group:
                        _answer(each, error)
    finally:
        crowd.is_served = False
        for each in (*group, *crowd.waiting):  # none, unless the server is being stopped
            each.answer.cancel()


def _next_group(waiting: deque[_Waiting]) -> list[_Waiting]:
    """Whoever may go together with the first; the others keep their order."""
    group, others = list[_Waiting](), list[_Waiting]()
    while waiting and len(group) < LARGEST_GROUP:
        each = waiting.popleft()
        if each.answer.done():  # its client has gone
            continue
        if not group or each.may_join(group[0]):
            group.append(each)
        else:
            others.append(each)
    waiting.extendleft(reversed(others))
    return group


async def _settle_group(ports: Ports, group: list[_Waiting], crowd: _Crowd) -> None:
    together, alone = await _with_fresh_keys(ports, group)
    try:
        if len(together) > 1:
            together = await _settle_together(ports, together)
            crowd.losers.moved()
    except Stale:
        pass  # one of their keys was used at this very moment: each will see for itself
    except MoorageError as error:
        if not error.is_final:
            raise
        # Nothing was done, and it cannot be told whose fault it was.
    for each in (*together, *alone):
        try:
            _answer(each, await _settle_alone(ports, each.errand, each.commit))
            crowd.losers.moved()
        except MoorageError as error:
            _answer(each, error)


async def _with_fresh_keys(ports: Ports, group: list[_Waiting]) -> tuple[list[_Waiting], list[_Waiting]]:
    """Those that may go together, and those whose key was used before or belongs to one of the others."""
    together, alone, keys = list[_Waiting](), list[_Waiting](), set[str]()
    for each in group:
        claim, caller = each.errand.claim, each.errand.caller.id
        if claim is None:
            together.append(each)
        elif claim.key in keys or await ports.ledger.receipt(caller, claim.key) is not None:
            alone.append(each)
        else:
            together.append(each)
            keys.add(claim.key)
    return together, alone


async def _settle_together(ports: Ports, group: list[_Waiting]) -> list[_Waiting]:
    """Those who are left: their refusal has to be remembered under their key, like that of any other request."""
    refusals: list[MoorageError | None] = []
    requests = [each.errand.request for each in group]
    commits = [each.commit for each in group]

    async def prepare() -> tuple[Part]:
        part, refusals[:] = await prepare_together(ports, group[0].errand.caller, commits, requests)
        joined = (each for each, refusal in zip(group, refusals, strict=True) if refusal is None)
        return (replace(part, claims=tuple(each.errand.claim for each in joined if each.errand.claim is not None)),)

    settled = await carry_out(ports, replace(group[0].errand, claim=None), prepare)
    remember_settled(settled)
    left = []
    for each, refusal in zip(group, refusals, strict=True):
        if refusal is not None and each.errand.claim is not None:
            left.append(each)
        else:
            _answer(each, refusal or settled)
    return left


async def _settle_alone(ports: Ports, errand: Errand, commit: TableCommit) -> Settled:
    async def prepare() -> tuple[Part]:
        return (await prepare_commit(ports, errand.caller, commit),)

    settled = await settle(ports, errand, prepare)
    remember_settled(settled)  # now: the next in line begins before this one is answered
    return settled


def _answer(waiting: _Waiting, outcome: Settled | Exception) -> None:
    if waiting.answer.done():
        return
    if isinstance(outcome, Settled):
        waiting.answer.set_result(outcome)
    else:
        waiting.answer.set_exception(outcome)
