"""Receipts: a retried request gets the response of its first attempt."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from moorage.core.entries import Done, HeadIs, KeysFree, Refused
from moorage.core.errors import KeyReused
from moorage.core.securables import MAIN
from moorage.ledger.port import Ledger, Stale
from moorage.testing import builders as make
from moorage.testing.builders import HOUR_MS, Clock


class Receipts:
    async def test_a_retry_gets_the_first_outcome(self, ledger: Ledger, clock: Clock) -> None:
        lake = await make.lake(ledger)
        outcome = Done(ids=("x",), versions=(1,))
        key = make.idempotency_key("k")
        first = await ledger.append(make.draft(make.commit(lake.table, 1), key=key, outcome=outcome))
        clock.advance(10)
        again = await ledger.append(make.draft(make.commit(lake.table, 2), key=key, outcome=Done()))
        assert not first.replayed
        assert again.replayed
        assert (again.seq, again.at_ms, again.outcome) == (first.seq, first.at_ms, outcome)
        assert (await ledger.position()).seq == first.seq

    async def test_the_key_is_checked_before_the_expectations(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger)
        expects = [HeadIs(lake.table, MAIN, 0)]
        first = await ledger.append(
            make.draft(make.commit(lake.table, 1), expects=expects, key=make.idempotency_key("k"))
        )
        again = await ledger.append(
            make.draft(make.commit(lake.table, 1), expects=expects, key=make.idempotency_key("k"))
        )
        assert (again.seq, again.replayed) == (first.seq, True)

    async def test_a_refusal_is_stored_without_becoming_history(self, ledger: Ledger) -> None:
        before = await ledger.position()
        refusal = Refused(error="NameTaken", message="taken", field="name", details={"holder": "x"})
        first = await ledger.append(make.draft(key=make.idempotency_key("k"), outcome=refusal))
        assert (first.seq, first.outcome, first.replayed) == (None, refusal, False)
        again = await ledger.append(make.draft(make.catalog(ledger.root, "c"), key=make.idempotency_key("k")))
        assert (again.seq, again.outcome, again.replayed) == (None, refusal, True)
        assert await ledger.position() == before

    async def test_a_refused_retry_of_a_successful_request_gets_the_success(self, ledger: Ledger) -> None:
        made = make.catalog(ledger.root, "c")
        done = Done(ids=(made.id,))
        first = await ledger.append(make.draft(made, key=make.idempotency_key("k"), outcome=done))
        late = Refused(error="NameTaken", message="taken by yourself")
        again = await ledger.append(make.draft(key=make.idempotency_key("k"), outcome=late))
        assert (again.seq, again.outcome, again.replayed) == (first.seq, done, True)

    async def test_a_key_cannot_be_used_for_two_requests(self, ledger: Ledger) -> None:
        await ledger.append(make.draft(make.catalog(ledger.root, "a"), key=make.idempotency_key("k", "one")))
        before = await ledger.position()
        with pytest.raises(KeyReused):
            await ledger.append(make.draft(make.catalog(ledger.root, "b"), key=make.idempotency_key("k", "two")))
        assert await ledger.position() == before

    async def test_callers_do_not_share_keys(self, ledger: Ledger) -> None:
        one = await ledger.append(make.draft(make.catalog(ledger.root, "a"), key=make.idempotency_key("k", "one")))
        two = await ledger.append(
            make.draft(make.catalog(ledger.root, "b"), key=make.idempotency_key("k", "two"), caller=make.BOB)
        )
        assert not one.replayed
        assert not two.replayed

    async def test_a_stale_draft_leaves_its_key_free(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger)
        with pytest.raises(Stale):
            await ledger.append(
                make.draft(
                    make.commit(lake.table, 6), expects=[HeadIs(lake.table, MAIN, 5)], key=make.idempotency_key("k")
                )
            )
        assert await ledger.receipt(make.ANN, "k") is None
        rebased = make.draft(
            make.commit(lake.table, 1), expects=[HeadIs(lake.table, MAIN, 0)], key=make.idempotency_key("k")
        )
        assert not (await ledger.append(rebased)).replayed

    async def test_an_expired_key_is_free_again(self, ledger: Ledger, clock: Clock) -> None:
        first = await ledger.append(
            make.draft(make.catalog(ledger.root, "a"), key=make.idempotency_key("k", "one", lifetime_ms=100))
        )
        clock.advance(100)
        assert await ledger.receipt(make.ANN, "k") is not None
        clock.advance(1)
        assert await ledger.receipt(make.ANN, "k") is None
        second = await ledger.append(
            make.draft(make.catalog(ledger.root, "b"), key=make.idempotency_key("k", "two", lifetime_ms=100))
        )
        assert not second.replayed
        assert second.seq != first.seq
        found = await ledger.receipt(make.ANN, "k")
        assert found is not None
        assert (found[0], found[1].seq) == ("two", second.seq)

    @pytest.mark.parametrize("fingerprint", ["the request", "another"])
    async def test_a_draft_in_history_gets_its_receipt_even_if_its_key_was_reused(
        self, ledger: Ledger, clock: Clock, fingerprint: str
    ) -> None:
        lake = await make.lake(ledger)
        draft = make.draft(make.update(lake.table), key=make.idempotency_key("k", lifetime_ms=10))
        first = await ledger.append(draft)
        clock.advance(11)
        await ledger.append(make.draft(make.update(lake.table), key=make.idempotency_key("k", fingerprint)))
        assert await ledger.append(draft) == replace(first, replayed=True)

    async def test_a_receipt_can_be_looked_up(self, ledger: Ledger) -> None:
        outcome = Done(ids=("é", "b"), versions=(3,))
        receipt = await ledger.append(
            make.draft(
                make.catalog(ledger.root, "a"), key=make.idempotency_key("k", "the fingerprint"), outcome=outcome
            )
        )
        assert await ledger.receipt(make.ANN, "k") == ("the fingerprint", receipt)
        assert await ledger.receipt(make.BOB, "k") is None
        assert await ledger.receipt(make.ANN, "other") is None

    async def test_expired_receipts_are_deleted(self, ledger: Ledger, clock: Clock) -> None:
        for n in range(5):
            await ledger.append(make.draft(key=make.idempotency_key(f"short {n}", lifetime_ms=10)))
        await ledger.append(make.draft(key=make.idempotency_key("long", lifetime_ms=HOUR_MS)))
        assert await ledger.delete_expired_receipts() == 0
        clock.advance(11)
        assert await ledger.delete_expired_receipts(limit=3) == 3
        assert await ledger.delete_expired_receipts() == 2
        assert await ledger.receipt(make.ANN, "long") is not None

    async def test_a_key_in_many_concurrent_drafts_is_used_once(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger)
        drafts = [
            make.draft(
                make.commit(lake.table, 1),
                expects=[HeadIs(lake.table, MAIN, 0)],
                key=make.idempotency_key("k"),
                outcome=Done(ids=(str(n),)),
            )
            for n in range(12)
        ]
        receipts = await asyncio.gather(*map(ledger.append, drafts))
        assert sorted(receipt.replayed for receipt in receipts) == [False] + [True] * 11
        assert (
            len({(receipt.seq, receipt.outcome.ids) for receipt in receipts if isinstance(receipt.outcome, Done)}) == 1
        )

    async def test_one_of_two_concurrent_requests_with_one_key_is_refused(self, ledger: Ledger) -> None:
        drafts = [
            make.draft(make.catalog(ledger.root, name), key=make.idempotency_key("k", name)) for name in ("a", "b")
        ]
        results = await asyncio.gather(*map(ledger.append, drafts), return_exceptions=True)
        assert sorted(type(result).__name__ for result in results) == ["KeyReused", "Receipt"]

    async def test_requests_in_one_draft_get_one_receipt_each(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger)
        keys, outcome = (
            [make.idempotency_key(f"k{n}", f"print {n}") for n in range(3)],
            Done(ids=("x",), versions=(1,)),
        )
        first = await ledger.append(make.draft(make.commit(lake.table, 1), keys=keys, outcome=outcome))
        for n, key in enumerate(keys):
            assert await ledger.receipt(make.ANN, key.value) == (f"print {n}", first)
            again = await ledger.append(make.draft(make.commit(lake.table, 2), key=key))
            assert (again.seq, again.outcome, again.replayed) == (first.seq, outcome, True)
        with pytest.raises(KeyReused):
            await ledger.append(make.draft(make.commit(lake.table, 2), key=make.idempotency_key("k1", "other")))

    async def test_a_draft_with_several_keys_fails_if_one_was_used_before(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger)
        await ledger.append(make.draft(make.commit(lake.table, 1), key=make.idempotency_key("old")))
        before = await ledger.position()
        for fingerprint in ("of a request", "of another request"):
            keys = [make.idempotency_key("new"), make.idempotency_key("old", fingerprint)]
            with pytest.raises(Stale) as stale:
                await ledger.append(make.draft(make.commit(lake.table, 2), keys=keys))
            assert stale.value.expect == KeysFree(("new", "old"))
        assert await ledger.position() == before
        assert await ledger.receipt(make.ANN, "new") is None

    async def test_a_draft_with_several_keys_may_be_retried(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger)
        whole = make.draft(make.commit(lake.table, 1), keys=[make.idempotency_key("a"), make.idempotency_key("b")])
        first = await ledger.append(whole)
        again = await ledger.append(whole)
        assert (again.seq, again.replayed) == (first.seq, True)
