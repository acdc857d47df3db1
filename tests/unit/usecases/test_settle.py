"""Settling: a decision is retried after a conflict, a limited number of times, and applied fully or not at all."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from msgspec.structs import replace

from moorage.access.open import OpenAccess
from moorage.core.callers import LOCAL, Caller
from moorage.core.entries import AccessIs, Done, Draft, IdempotencyKey, Live, NewJob, Receipt, Refused
from moorage.core.errors import Busy, InvalidInput, KeyReused, NameTaken, Unauthenticated, Unavailable
from moorage.core.ids import JobId, SecurableId, Seq
from moorage.core.locations import Roots
from moorage.ledger.port import Found, Ledger, Position, Stale
from moorage.usecases.parts import Part
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.settling.settle import find_replay, settle

EXPECT = Live(SecurableId("x"))


class Script:
    """A ledger that returns scripted answers to appends, and records the drafts."""

    def __init__(self, *answers: Receipt | Exception) -> None:
        self.answers = list(answers)
        self.drafts: list[Draft] = []
        self.receipts: dict[tuple[str, str], tuple[str, Receipt]] = {}

    async def append(self, draft: Draft) -> Receipt:
        self.drafts.append(draft)
        answer = self.answers.pop(0) if self.answers else Receipt(seq=Seq(7), at_ms=1, outcome=draft.outcome)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def receipt(self, caller: str, key: str) -> tuple[str, Receipt] | None:
        return self.receipts.get((caller, key))

    async def lineage(self, id: SecurableId) -> Found:
        return Found(Position(Seq(1), 0, 0), ())


def ports_on(ledger: Script) -> Ports:
    return Ports(
        ledger=cast(Ledger, ledger),
        storage=cast(Any, None),
        snapshots=cast(Any, None),
        access=OpenAccess(),
        roots=Roots("file:///x/"),
        page_secret=b"x",
    )


def errand(*, key: str | None = None, fingerprint: str = "p", caller: Caller = LOCAL) -> Errand:
    used = None if key is None else IdempotencyKey(value=key, fingerprint=fingerprint, lifetime_ms=1000)
    return Errand(caller=caller, api="test", request="r", key=used)


async def one_part(_: Caller = LOCAL) -> list[Part]:
    return [Part(expects=(EXPECT,), jobs=(NewJob(id=JobId("j"), kind="k"),), done=Done(ids=("j",)))]


async def test_a_stale_decision_is_made_again_on_the_new_state() -> None:
    ledger, attempts = Script(Stale(EXPECT), Stale(EXPECT)), 0

    async def prepare(_: Caller) -> list[Part]:
        nonlocal attempts
        attempts += 1
        return [Part(done=Done(ids=(f"attempt {attempts}",)))]

    settled = await settle(ports_on(ledger), errand(), prepare)
    assert settled.done.ids == ("attempt 3",)
    assert len({draft.id for draft in ledger.drafts}) == 3


async def test_after_sixteen_conflicts_the_error_is_busy_and_nothing_is_done() -> None:
    ledger = Script(*[Stale(EXPECT)] * 100)
    with pytest.raises(Busy, match="16 times"):
        await settle(ports_on(ledger), errand(), one_part)
    assert len(ledger.drafts) == 16


async def test_after_a_first_conflict_retries_are_serialised() -> None:
    """Ten writers of one object: each conflicts at most once, because retries run one after another."""
    at = 0

    class OneWinner(Script):
        async def append(self, draft: Draft) -> Receipt:
            nonlocal at
            read = int(cast(Done, draft.outcome).ids[0])
            await asyncio.sleep(0)
            self.drafts.append(draft)
            if read != at:
                raise Stale(EXPECT)
            at += 1
            return Receipt(seq=Seq(at), at_ms=1, outcome=draft.outcome)

    async def prepare(_: Caller) -> list[Part]:
        return [Part(done=Done(ids=(str(at),)))]

    ledger = OneWinner()
    ports = ports_on(ledger)
    await asyncio.gather(*[settle(ports, errand(), prepare) for _ in range(10)])
    assert at == 10
    assert len(ledger.drafts) == 19


async def test_parts_are_joined_into_one_draft_in_their_order() -> None:
    ledger = Script()

    async def prepare(_: Caller) -> list[Part]:
        return [
            Part(
                expects=(Live(SecurableId(f"e{n}")),),
                jobs=(NewJob(id=JobId(f"j{n}"), kind="k"),),
                done=Done(ids=(f"i{n}",), versions=(n,)),
            )
            for n in range(3)
        ]

    settled = await settle(ports_on(ledger), errand(), prepare)
    (draft,) = ledger.drafts
    assert [cast(Live, expect).id for expect in draft.expects] == ["e0", "e1", "e2"]
    assert [job.id for job in draft.jobs] == ["j0", "j1", "j2"]
    assert settled.done == draft.outcome == Done(ids=("i0", "i1", "i2"), versions=(0, 1, 2))


async def test_a_draft_expects_the_privileges_that_it_was_authorised_with() -> None:
    ledger = Script()
    await settle(ports_on(ledger), errand(caller=Caller(id="ann", name="ann", access_seq=5)), one_part)
    assert ledger.drafts[0].expects == (EXPECT, AccessIs(5))


async def test_a_final_refusal_under_a_key_is_recorded_before_it_is_raised() -> None:
    ledger = Script()

    async def prepare(_: Caller) -> list[Part]:
        raise NameTaken("taken", field="name", kind="catalog")

    with pytest.raises(NameTaken) as refusal:
        await settle(ports_on(ledger), errand(key="k"), prepare)
    (draft,) = ledger.drafts
    assert draft.outcome == Refused(error="NameTaken", message="taken", field="name", details={"kind": "catalog"})
    assert not draft.makes_history
    assert (refusal.value.field, refusal.value.details) == ("name", {"kind": "catalog"})


async def test_a_retry_returns_the_success_of_the_first_attempt_and_not_its_own_refusal() -> None:
    first = Receipt(seq=Seq(3), at_ms=1, outcome=Done(ids=("x",)), replayed=True)
    ledger = Script(first)

    async def prepare(_: Caller) -> list[Part]:
        raise NameTaken("taken by the first attempt itself")

    settled = await settle(ports_on(ledger), errand(key="k"), prepare)
    assert settled.done == Done(ids=("x",))
    assert settled.parts == ()


@pytest.mark.parametrize("transient", [Unavailable("no"), Busy("no")])
async def test_a_transient_failure_under_a_key_leaves_no_receipt(transient: Exception) -> None:
    ledger = Script(transient)
    with pytest.raises(type(transient)):
        await settle(ports_on(ledger), errand(key="k"), one_part)
    assert len(ledger.drafts) == 1


async def test_a_used_key_is_answered_without_a_new_decision() -> None:
    ledger = Script()
    ledger.receipts["local", "k"] = ("p", Receipt(seq=Seq(3), at_ms=1, outcome=Done(ids=("x",))))

    async def never(_: Caller) -> list[Part]:
        raise AssertionError("it was decided before")

    settled = await settle(ports_on(ledger), errand(key="k"), never)
    assert (settled.done.ids, settled.receipt.replayed) == (("x",), True)
    with pytest.raises(KeyReused):
        await settle(ports_on(ledger), errand(key="k", fingerprint="another request"), never)
    assert ledger.drafts == []


async def test_a_recorded_refusal_is_raised_again_unchanged() -> None:
    ledger = Script()
    refusal = Refused(error="NameTaken", message="taken", field="name", details={"a": 1})
    ledger.receipts["local", "k"] = ("p", Receipt(seq=None, at_ms=1, outcome=refusal))
    with pytest.raises(NameTaken, match="taken") as refused:
        await settle(ports_on(ledger), errand(key="k"), one_part)
    assert (refused.value.field, refused.value.details) == ("name", {"a": 1})


@pytest.mark.parametrize("key", ["", "x" * 256, "a\nb", "\x7f"])
async def test_an_invalid_key_is_refused(key: str) -> None:
    ledger = Script()
    with pytest.raises(InvalidInput) as refusal:
        await settle(ports_on(ledger), errand(key=key), one_part)
    assert refusal.value.field == "Idempotency-Key"
    assert ledger.drafts == []


async def test_a_cancelled_duplicate_request_leaves_no_queue_behind() -> None:
    gate = asyncio.Event()

    async def slow(_: Caller) -> list[Part]:
        await gate.wait()
        return await one_part()

    ports = ports_on(Script())
    first = asyncio.create_task(settle(ports, errand(key="k"), slow))
    second = asyncio.create_task(settle(ports, errand(key="k"), slow))
    await asyncio.sleep(0)
    second.cancel()
    gate.set()
    await first
    with pytest.raises(asyncio.CancelledError):
        await second
    assert ports.local.is_idle


async def test_after_a_grant_the_next_attempt_authenticates_again() -> None:
    """With the old caller every further attempt would be stale, and the request would end as Busy."""
    ledger = Script(Stale(AccessIs(5), 6))
    before, after = (Caller(id="ann", name="ann", access_seq=seq) for seq in (5, 6))
    callers = list[Caller]()

    async def authenticate() -> Caller:
        return after

    async def prepare(caller: Caller) -> list[Part]:
        callers.append(caller)
        return await one_part()

    work = replace(errand(caller=before), authenticate=authenticate)
    assert (await settle(ports_on(ledger), work, prepare)).receipt.seq == 7
    assert callers == [before, after]
    assert [draft.expects[-1] for draft in ledger.drafts] == [AccessIs(5), AccessIs(6)]


async def test_a_caller_that_is_revoked_during_the_request_is_refused_and_nothing_is_recorded() -> None:
    ledger = Script(Stale(AccessIs(5), 6))

    async def authenticate() -> Caller:
        raise Unauthenticated("the token was revoked")

    work = replace(errand(key="k", caller=Caller(id="ann", name="ann", access_seq=5)), authenticate=authenticate)
    with pytest.raises(Unauthenticated):
        await settle(ports_on(ledger), work, one_part)
    assert len(ledger.drafts) == 1


async def test_a_retriable_refusal_is_not_recorded_under_the_key() -> None:
    async def prepare(_: Caller) -> list[Part]:
        raise NameTaken("taken")

    ledger = Script()
    with pytest.raises(NameTaken):
        await settle(ports_on(ledger), errand(key="k"), prepare, retriable=(NameTaken,))
    assert ledger.drafts == []


async def test_the_first_answer_of_a_key_is_found_without_a_decision() -> None:
    ledger = Script()
    assert await find_replay(ports_on(ledger), errand()) is None
    assert await find_replay(ports_on(ledger), errand(key="k")) is None
    ledger.receipts["local", "k"] = ("p", Receipt(seq=Seq(3), at_ms=1, outcome=Done(ids=("x",))))
    first = await find_replay(ports_on(ledger), errand(key="k"))
    assert first is not None
    assert first.done.ids == ("x",)
