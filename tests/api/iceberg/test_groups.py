"""Group commit: commits that wait for one table become one version, and each gets its own response."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import uuid4

import pytest
from msgspec.structs import force_setattr

from moorage import fresh
from moorage.core.callers import LOCAL, Caller
from moorage.core.entries import Commit, Draft, IdempotencyKey, JobHeld, Receipt
from moorage.core.errors import OutcomeUnknown, RequirementFailed
from moorage.core.ids import Fence
from moorage.core.securables import Kind
from moorage.testing import builders as make
from moorage.usecases.catalog.addresses import Address
from moorage.usecases.iceberg import groups
from moorage.usecases.iceberg.commits import TableCommit
from moorage.usecases.iceberg.groups import commit_table
from moorage.usecases.iceberg.relations import Loaded
from moorage.usecases.ports import Errand
from tests.api.iceberg.lake import PERSISTED, Lake, refused, set_property
from tests.api.iceberg.test_commits import AT_NONE, LostResponseLedger, change
from tests.api.iceberg.test_tables import set_main, snapshot


async def commit(
    lake: Lake,
    *updates: Any,
    requires: Any = (),
    caller: Caller = LOCAL,
    key: str | None = None,
    request: str = "r",
    job: JobHeld | None = None,
) -> Loaded:
    """Commit without HTTP, so that commits that start together also arrive together."""
    bound = None if key is None else IdempotencyKey(value=key, fingerprint="p", lifetime_ms=1_000_000)
    errand = Errand(caller=caller, api="iceberg", request=request, key=bound, job=job)
    address = Address(Kind.TABLE, ("lake", "sales", "orders"))
    return await commit_table(
        lake.house.ports, errand, TableCommit(address=address, requirements=requires, updates=updates)
    )


async def entries_since(lake: Lake, seq: int) -> list[Any]:
    return list(await lake.house.ledger.entries(seq))


async def test_commits_that_arrive_during_another_become_one_version_one_file_and_one_entry(lake: Lake) -> None:
    await lake.create("orders")
    seq = (await lake.house.ledger.position()).seq
    made = await asyncio.gather(*[commit(lake, set_property(f"p{n}"), request=f"r{n}") for n in range(16)])
    assert [each.version for each in made] == [1] + [2] * 15
    assert [len(made[n].metadata.doc["properties"]) for n in (0, 1, 15)] == [2, 17, 17]
    _, entry = await entries_since(lake, seq)
    (version,) = [change for change in entry.body.changes if isinstance(change, Commit)]
    assert version.details["requests"] == [f"r{n}" for n in range(1, 16)]
    assert len(lake.metadata_files()) == 3


async def test_a_commit_whose_requirement_fails_is_refused_alone(lake: Lake) -> None:
    await lake.create("orders")
    appends = [commit(lake, snapshot(n, None), set_main(n), requires=[AT_NONE]) for n in (1, 2)]
    others = [commit(lake, set_property(name)) for name in "ab"]
    results = await asyncio.gather(others[0], *appends, others[1], return_exceptions=True)
    assert [type(result) for result in results] == [Loaded, Loaded, RequirementFailed, Loaded]
    found = await lake.metadata("orders")
    assert (found["current-snapshot-id"], found["properties"]) == (1, {**PERSISTED, "a": "1", "b": "1"})
    assert (len(found["snapshot-log"]), len(found["metadata-log"])) == (1, 2)


async def test_concurrent_commits_do_not_read_the_document_they_just_wrote_from_the_ledger(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    await lake.create("orders")

    async def fail(*line: object) -> bytes | None:
        raise AssertionError(f"the document of {line} was read")

    monkeypatch.setattr(type(lake.house.ledger), "document", lambda self, *line: fail(*line))
    wrong = [{"type": "assert-current-schema-id", "current-schema-id": 7}]
    for turn in range(5):
        commits = [commit(lake, set_property(f"p{turn}x{n}"), requires=wrong if n == 3 else ()) for n in range(8)]
        results = await asyncio.gather(*commits, return_exceptions=True)
        assert [n for n, result in enumerate(results) if not isinstance(result, Loaded)] == [3]


async def test_an_entry_with_the_id_of_a_refused_request_lists_the_requests_that_succeeded(lake: Lake) -> None:
    await lake.create("orders")
    wrong = [{"type": "assert-current-schema-id", "current-schema-id": 7}]
    seq = (await lake.house.ledger.position()).seq
    await asyncio.gather(
        commit(lake, set_property("a"), request="first"),
        commit(lake, set_property("b"), request="refused", requires=wrong),
        commit(lake, set_property("c"), request="applied"),
        return_exceptions=True,
    )
    versions = [entry.body.changes[0] for entry in await entries_since(lake, seq)]
    assert [version.details.get("requests") for version in versions] == [None, ["applied"]]


async def test_each_commit_of_a_group_gets_its_own_receipt(lake: Lake) -> None:
    await lake.create("orders")
    keys = [str(uuid4()) for _ in range(4)]
    seq = (await lake.house.ledger.position()).seq
    wrong = [{"type": "assert-current-schema-id", "current-schema-id": 7}]
    for _ in range(2):
        results = await asyncio.gather(
            *[commit(lake, set_property(key), key=key) for key in keys[:3]],
            commit(lake, set_property("never"), requires=wrong, key=keys[3]),
            return_exceptions=True,
        )
        assert [type(result) for result in results] == [Loaded, Loaded, Loaded, RequirementFailed]
        assert len(await entries_since(lake, seq)) == 2
    assert len((await lake.metadata("orders"))["properties"]) == 3 + len(PERSISTED)


class OtherServerLedger:
    """A ledger in which another server uses a key just before the append."""

    def __init__(self, ledger: Any, key: str) -> None:
        self._ledger, self._key = ledger, key

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    async def append(self, draft: Draft) -> Receipt:
        for key in draft.keys:
            if key.value == self._key:
                self._key = ""
                await self._ledger.append(make.draft(key=key, caller=draft.caller, outcome=draft.outcome))
        found: Receipt = await self._ledger.append(draft)
        return found


@pytest.mark.parametrize("others", [0, 2])
async def test_a_request_that_another_server_carried_out_is_not_repeated_in_a_group(lake: Lake, others: int) -> None:
    await lake.create("orders")
    working, key = lake.house.ports.ledger, str(uuid4())
    force_setattr(lake.house.ports, "ledger", OtherServerLedger(working, key))
    group = [commit(lake, set_property(f"p{n}"), key=str(uuid4())) for n in range(others)]
    first = asyncio.create_task(commit(lake, set_property("x")))
    await asyncio.sleep(0)  # the first is being served, so the others wait as a group
    await asyncio.gather(commit(lake, set_property("twice"), key=key), commit(lake, set_property("y")), *group, first)
    force_setattr(lake.house.ports, "ledger", working)
    found = await lake.metadata("orders")
    assert set(found["properties"]) == {*PERSISTED, "x", "y", *(f"p{n}" for n in range(others))}
    assert len(lake.metadata_files()) == len(found["metadata-log"]) + 1


async def test_an_entry_has_one_caller(lake: Lake) -> None:
    await lake.create("orders")
    seq = (await lake.house.ledger.position()).seq
    callers = [Caller(id=name, name=name) for name in ("ann", "bob")]
    await asyncio.gather(*[commit(lake, set_property(f"p{n}"), caller=callers[n % 2]) for n in range(8)])
    assert [entry.caller for entry in await entries_since(lake, seq)] == ["ann", "bob", "ann"]
    assert len((await lake.metadata("orders"))["properties"]) == 8 + len(PERSISTED)


async def test_a_move_to_an_occupied_location_fails_alone(lake: Lake) -> None:
    await lake.create("orders")
    there = (await lake.create("there")).json()["metadata"]["location"]
    move = {"action": "set-location", "location": there}
    updates = [set_property("a"), set_property("b"), move, set_property("c")]
    results = await asyncio.gather(*[commit(lake, update) for update in updates], return_exceptions=True)
    assert [isinstance(result, Loaded) for result in results] == [True, True, False, True]
    assert (await lake.metadata("orders"))["properties"] == {**PERSISTED, "a": "1", "b": "1", "c": "1"}


async def test_a_cancelled_request_does_not_cancel_the_others_of_its_group(lake: Lake) -> None:
    await lake.create("orders")
    tasks = [asyncio.create_task(commit(lake, set_property(f"p{n}"))) for n in range(4)]
    await asyncio.sleep(0)
    tasks[0].cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(result) for result in results] == [asyncio.CancelledError, Loaded, Loaded, Loaded]
    assert {"p1", "p2", "p3"} <= set((await lake.metadata("orders"))["properties"])


async def test_an_unknown_outcome_is_reported_to_the_whole_group(lake: Lake) -> None:
    await lake.create("orders")
    working = lake.house.ports.ledger
    force_setattr(lake.house.ports, "ledger", LostResponseLedger(working))
    results = await asyncio.gather(*[commit(lake, set_property(f"p{n}")) for n in range(3)], return_exceptions=True)
    force_setattr(lake.house.ports, "ledger", working)
    assert [type(result) for result in results] == [OutcomeUnknown] * 3
    assert len((await lake.metadata("orders"))["properties"]) == 3 + len(PERSISTED)


async def test_concurrent_commits_to_a_missing_table_are_all_not_found(lake: Lake) -> None:
    answers = await asyncio.gather(*[lake.commit("none", set_property("a")) for _ in range(3)])
    for answer in answers:
        refused(answer, 404, "NoSuchTableException")


async def test_writers_that_reload_after_a_conflict_all_succeed_in_the_end(lake: Lake) -> None:
    await lake.create("orders")

    async def append(id: int) -> None:
        while True:
            found = await lake.metadata("orders")
            head, number = found.get("current-snapshot-id"), found["last-sequence-number"] + 1
            added = snapshot(id, head)["snapshot"] | {"sequence-number": number}
            at = [AT_NONE | {"snapshot-id": head}]
            try:
                await commit(lake, {"action": "add-snapshot", "snapshot": added}, set_main(id), requires=at)
            except RequirementFailed:
                continue
            return

    await asyncio.gather(*[append(id) for id in range(1, 13)])
    found = await lake.metadata("orders")
    assert {each["snapshot-id"] for each in found["snapshots"]} == set(range(1, 13))
    assert len(found["snapshot-log"]) == 12


async def test_requests_with_the_same_key_in_a_group_are_applied_once(lake: Lake) -> None:
    await lake.create("orders")
    key, seq = str(uuid4()), (await lake.house.ledger.position()).seq
    snapshots = [commit(lake, snapshot(1, None), set_main(1), requires=[AT_NONE], key=key) for _ in range(4)]
    made = await asyncio.gather(commit(lake, set_property("first")), *snapshots, commit(lake, set_property("a")))
    assert all(isinstance(each, Loaded) for each in made)
    assert len(await entries_since(lake, seq)) == 2


async def test_one_key_for_a_commit_and_a_transaction_causes_no_deadlock(lake: Lake) -> None:
    await lake.create("orders")
    body = {"table-changes": [change("orders", set_property("b"))]}
    for _ in range(4):
        key = str(uuid4())
        requests = [lake.commit("orders", set_property("a"), key=key) for _ in range(3)]
        requests += [lake.ask("POST", "/transactions/commit", body, key=key) for _ in range(3)]
        async with asyncio.timeout(60):
            answers = await asyncio.gather(*requests)
        statuses = [answer.status_code for answer in answers]
        assert statuses in ([200] * 3 + [422] * 3, [422] * 3 + [204] * 3)


async def take_job(lake: Lake) -> JobHeld:
    await lake.house.ledger.append(make.draft(jobs=[make.job("compact")]))
    lease = await lake.house.ledger.lease_job("w", ("compact",), Fence("f"), 60_000)
    assert lease is not None
    return JobHeld(lease.job.id, lease.fence)


async def test_after_a_conflict_of_a_job_others_wait_for_its_next_commit(lake: Lake) -> None:
    await lake.create("orders")
    job = await take_job(lake)
    await commit(lake, snapshot(1, None), set_main(1))
    with pytest.raises(RequirementFailed):
        await commit(lake, snapshot(2, None), set_main(2), requires=[AT_NONE], job=job)
    other = asyncio.create_task(commit(lake, set_property("late")))
    await asyncio.sleep(0.2)
    assert not other.done()
    made = await commit(lake, set_property("rewritten"), job=job)
    assert "late" not in made.metadata.doc["properties"]
    assert "rewritten" in (await other).metadata.doc["properties"]


async def test_others_do_not_wait_for_a_job_that_does_not_come_back(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "_RESERVED_SECONDS", 0.1)
    await lake.create("orders")
    job = await take_job(lake)
    await commit(lake, snapshot(1, None), set_main(1))
    with pytest.raises(RequirementFailed):
        await commit(lake, snapshot(2, None), set_main(2), requires=[AT_NONE], job=job)
    assert (await commit(lake, set_property("a"))).version == 2


async def test_a_request_with_a_job_that_no_worker_has_delays_no_commit(lake: Lake) -> None:
    await lake.create("orders")
    await commit(lake, snapshot(1, None), set_main(1))
    unknown = JobHeld(fresh.job_id(), Fence("f"))
    with pytest.raises(RequirementFailed):
        await commit(lake, snapshot(2, None), set_main(2), requires=[AT_NONE], job=unknown)
    async with asyncio.timeout(1):
        await commit(lake, set_property("a"))
