"""Random sequences of drafts: after every step the ledger equals a model of plain dictionaries."""

import asyncio
import os
import shutil
from collections.abc import Awaitable, Callable, Iterator
from itertools import cycle
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from msgspec.structs import replace

from moorage.core.entries import AccessIs, Draft, Empty, EntryBody, LocationFree, Receipt
from moorage.core.errors import AlreadyPurged, KeyReused
from moorage.core.ids import SecurableId, Seq
from moorage.core.names import name_key
from moorage.core.securables import SHELF_OF, Head, Kind, Securable
from moorage.ledger.port import Ledger, Position, Stale, Step
from moorage.ledger.postgres import PostgresLedger
from moorage.ledger.sqlite import SqliteLedger
from moorage.testing import builders as make
from moorage.testing.builders import Clock
from moorage.testing.empty_database import emptied
from moorage.testing.model import Model
from moorage.testing.postgres import PostgresServer
from tests.property.moves import draw_draft, initial_drafts

SOAK = os.environ.get("MOORAGE_SOAK") == "1"
Result = Receipt | Stale | KeyReused | AlreadyPurged
T = TypeVar("T")


class LedgerWalk(RuleBasedStateMachine):
    """`start` empties the store. `open_ledger` opens its ledger, the first time and again later.

    With several servers, they write in turns, and all reads go to the first.
    """

    start: Callable[[], None]
    open_ledger: Callable[[Clock], Awaitable[Ledger]]
    servers = 1

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.clock = Clock()
        self.model = Model()
        self.sent: list[Draft] = []
        self.checked = 0
        self.seen: dict[tuple[SecurableId, str], Head] = {}

    def run(self, work: Awaitable[T]) -> T:
        async def whole() -> T:
            return await work

        return self.runner.run(whole())

    @initialize()
    def open(self) -> None:
        type(self).start()
        self.open_all()
        (genesis,) = self.run(self.ledger.entries(0))
        first = make.draft(*genesis.body.changes, caller=genesis.caller, id=genesis.draft)
        self.model.append(first, self.clock())
        self.checked = 1
        self.send(initial_drafts(self.ledger.root))

    def open_all(self) -> None:
        ledgers = [self.run(type(self).open_ledger(self.clock)) for _ in range(self.servers)]
        self.ledgers, self.ledger, self.writers = ledgers, ledgers[0], cycle(ledgers)

    def close_all(self) -> None:
        for ledger in self.ledgers:
            self.run(ledger.close())

    def teardown(self) -> None:
        if hasattr(self, "ledgers"):
            self.close_all()
        self.runner.close()

    # --- steps ---------------------------------------------------------------------------------

    @rule(data=st.data())
    def one_draft(self, data: st.DataObject) -> None:
        self.send([draw_draft(data, self.model)])

    @rule(data=st.data())
    def several_drafts(self, data: st.DataObject) -> None:
        self.send([draw_draft(data, self.model) for _ in range(data.draw(st.integers(2, 6)))])

    @rule(data=st.data())
    def drafts_sent_again(self, data: st.DataObject) -> None:
        again = data.draw(st.lists(st.sampled_from(self.sent), min_size=1, max_size=3))
        self.send([*again, draw_draft(data, self.model)])

    @rule(data=st.data())
    def published(self, data: st.DataObject) -> None:
        lines = list(self.model.lines)
        if lines:
            line = data.draw(st.sampled_from(lines))
            head = self.model.lines[line]
            version = data.draw(st.integers(0, head.version))
            self.run(self.ledger.record_published(*line, version))
            newest = version if head.published is None else max(version, head.published)
            self.model.lines[line] = replace(head, published=newest)

    @rule(jump=st.sampled_from([1, 50, 150, 500, -1000]), reopen=st.sampled_from([False] * 5 + [True]))
    def time_passes(self, jump: int, reopen: bool) -> None:  # noqa: FBT001 - Hypothesis calls it
        self.clock.advance(jump)
        if reopen:
            self.close_all()
            self.open_all()

    def send(self, drafts: list[Draft]) -> None:
        """Append concurrently. The store must answer as the model does when it appends them one after another."""

        async def append_all() -> list[Any]:
            return await asyncio.gather(*map(next(self.writers).append, drafts), return_exceptions=True)

        self.sent = (self.sent + drafts)[-20:]
        answers = self.run(append_all())
        for draft, answer in zip(drafts, answers, strict=True):
            try:
                expected: Result = self.model.append(draft, self.clock())
            except (Stale, KeyReused, AlreadyPurged) as refusal:
                expected = refusal
            assert comparable(answer, self.model) == comparable(expected, self.model), draft
            if isinstance(answer, Receipt) and not answer.replayed:
                self.model.renumber(draft, answer)

    # --- what must hold after every step -------------------------------------------------------

    @invariant()
    def the_store_equals_the_model(self) -> None:
        if hasattr(self, "ledger"):
            self.run(self.compare())

    async def compare(self) -> None:
        model, ledger = self.model, self.ledger
        position = await ledger.position()
        assert position == Position(Seq(len(model.history)), model.at_ms, model.access_seq)
        await self.compare_feed()
        for parent in model.of_kind(Kind.METASTORE, Kind.CATALOG, Kind.NAMESPACE):
            await self.compare_children(parent.id)
        for table in model.of_kind(Kind.TABLE):
            await self.compare_walk(table)
        for line, head in model.lines.items():
            if self.seen.get(line) != head:  # reading every version after every step would take ten times as long
                self.seen[line] = head
                assert await ledger.head(*line) == head
                assert [one.version for one in await ledger.versions(*line)] == sorted(model.versions[line])
        for caller, key in model.keys:
            assert await ledger.receipt(caller, key) == model.receipt(caller, key, self.clock())

    async def compare_children(self, parent: SecurableId) -> None:
        children = list(self.model.children(parent))
        found = [one.securable for one in await self.ledger.all_children(parent)]
        assert {one.id: one for one in found} == {one.id: replace(one, head=None) for one in children}
        for shelf in {SHELF_OF[one.kind] for one in children}:
            on_it = [one for one in children if SHELF_OF[one.kind] is shelf]
            assert list((await self.ledger.children(parent, shelf)).items) == [one for one in on_it if one.is_live]
            can_be_undropped = {one.id: one for one in on_it if not one.is_live and not one.purged}
            if can_be_undropped:
                dropped = await self.ledger.dropped(parent, shelf)
                assert {one.id: one for one in dropped.items} == can_be_undropped

    async def compare_walk(self, table: Securable) -> None:
        above = self.model.path(table.id)[:-1]
        steps = [Step(SHELF_OF[one.kind], name_key(one.name)) for one in (*above, table)]
        chain = (await self.ledger.walk(steps)).chain
        is_found = len(chain) == len(steps) and chain[-1].id == table.id
        assert is_found == self.model.is_live(table.id)
        assert not is_found or chain == (*above, table)

    async def compare_feed(self) -> None:
        entries = await self.ledger.entries(self.checked)
        assert [entry.seq for entry in entries] == list(range(self.checked + 1, len(self.model.history) + 1))
        # Only drafts of one batch that do not conflict may have their numbers in another order.
        written = {draft.id: EntryBody(changes=draft.changes, jobs=draft.jobs) for draft in self.model.history}
        for entry in entries:
            assert entry.body == written[entry.draft]
        assert len({entry.draft for entry in entries}) == len(entries)
        self.checked += len(entries)


def comparable(answer: Any, model: Model) -> Any:
    """The comparable part of an answer. Which draft wins is certain; which of several conflicts is named is not."""
    if isinstance(answer, Receipt):
        return answer.outcome, answer.replayed, answer.seq is None, answer.at_ms
    if isinstance(answer, KeyReused | AlreadyPurged):
        return type(answer)
    if isinstance(answer, Stale):
        if isinstance(answer.expect, AccessIs):
            return answer.expect
        is_certain = not isinstance(answer.expect, Empty | LocationFree)
        return answer.expect, answer.actual if is_certain else answer.actual in model.objects
    return answer


def walk(machine: type[LedgerWalk], *, examples: int, steps: int) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples * 80 if SOAK else examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.fixture(scope="module")
def database(postgres: PostgresServer) -> Iterator[str]:
    url = postgres.new_database("ledger_walks")
    yield url
    postgres.drop_database(url)


@pytest.mark.slow
@pytest.mark.timeout(600)  # a failure takes minutes to shrink
def test_sqlite_equals_the_model(tmp_path: Path) -> None:
    class Walk(LedgerWalk):
        @staticmethod
        def start() -> None:
            shutil.rmtree(tmp_path / "data", ignore_errors=True)

        @staticmethod
        async def open_ledger(clock: Clock) -> Ledger:
            return await SqliteLedger.open(tmp_path / "data", clock_ms=clock)

    walk(Walk, examples=25, steps=40)


@pytest.mark.slow
@pytest.mark.timeout(600)  # a failure takes minutes to shrink
@pytest.mark.parametrize("count", [1, 2], ids=["one-server", "two-servers"])
def test_postgres_equals_the_model(database: str, count: int) -> None:
    class Walk(LedgerWalk):
        servers = count

        @staticmethod
        def start() -> None:
            asyncio.run(emptied(database))

        @staticmethod
        async def open_ledger(clock: Clock) -> Ledger:
            return await PostgresLedger.open(database, clock_ms=clock)

    walk(Walk, examples=12, steps=30)
