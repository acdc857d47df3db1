"""Commits: conflicts, races and retries."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import pytest
from msgspec.structs import force_setattr

from moorage.core.callers import LOCAL, Caller
from moorage.core.errors import OutcomeUnknown
from moorage.core.securables import Kind
from moorage.ledger.port import Ledger
from moorage.storage.local import LocalStorage
from moorage.usecases.catalog.addresses import Address
from moorage.usecases.iceberg.commits import TableCommit, prepare_commit
from moorage.usecases.parts import Part
from moorage.usecases.ports import Errand
from moorage.usecases.settling.settle import settle
from tests.api.iceberg.lake import PERSISTED, Lake, refused, set_property, to_space, to_table
from tests.api.iceberg.test_tables import CREATE, building, set_main, snapshot, stage

AT_NONE = {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": None}


async def test_a_commit_becomes_the_next_version_and_logs_the_file_it_replaces(lake: Lake) -> None:
    first = (await lake.create("orders")).json()
    second = (await lake.commit("orders", set_property("a"))).json()
    assert second["metadata"]["metadata-log"] == [
        {"timestamp-ms": first["metadata"]["last-updated-ms"], "metadata-file": first["metadata-location"]}
    ]
    assert second["metadata-location"].rpartition("/")[2].startswith("00001-")
    assert (await lake.load("orders")).json() == second


async def test_response_and_metadata_file_are_equal_for_every_version(lake: Lake) -> None:
    answer = (await lake.create("orders")).json()
    removal = {"action": "remove-snapshots", "snapshot-ids": [2]}
    commits = [(snapshot(id, id - 1 or None), set_main(id)) for id in (1, 2, 3)]
    for updates in (*commits, (set_property("a"),), (removal,), (snapshot(4, 3), set_main(4))):
        answer = (await lake.commit("orders", *updates)).json()
        assert lake.filed(answer["metadata-location"]) == answer["metadata"]
    assert [each["snapshot-id"] for each in answer["metadata"]["snapshots"]] == [1, 3, 4]
    lake.house.ports.local.clear_caches()
    assert (await lake.load("orders")).json() == answer


async def test_a_commit_that_changes_nothing_makes_no_version(lake: Lake) -> None:
    first = (await lake.create("orders", properties={"a": "1"})).json()
    assert (await lake.commit("orders", set_property("a"))).json() == first
    assert (await lake.commit("orders")).json() == first
    assert len(lake.metadata_files()) == 1


async def test_a_requirement_that_fails_is_a_conflict_and_leaves_no_file(lake: Lake) -> None:
    await lake.create("orders")
    await lake.commit("orders", snapshot(1, None), set_main(1), requires=[AT_NONE])
    files = lake.metadata_files()
    late = await lake.commit("orders", snapshot(2, None), set_main(2), requires=[AT_NONE])
    refused(late, 409, "CommitFailedException", "was created concurrently")
    stale = await lake.commit("orders", snapshot(1, 1) | {"snapshot": snapshot(1, 1)["snapshot"] | {"snapshot-id": 9}})
    refused(stale, 409, "CommitFailedException", "sequence number")
    assert lake.metadata_files() == files


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"requirements": [], "updates": [{"action": "explode"}]}, "updates[0]"),
        ({"requirements": [{"type": "assert-luck"}], "updates": []}, "requirements[0]"),
        ({"requirements": [], "updates": [{"action": "upgrade-format-version", "format-version": 1}]}, "downgraded"),
        ({"requirements": [], "updates": [{"action": "upgrade-format-version", "format-version": 4}]}, "not supported"),
        (
            {"identifier": {"namespace": ["sales"], "name": "x"}, "requirements": [], "updates": []},
            "identifier names another table",
        ),
    ],
)
async def test_an_update_that_cannot_be_applied_is_a_bad_request(lake: Lake, body: Any, words: str) -> None:
    await lake.create("orders")
    refused(await lake.ask("POST", to_table("orders"), body), 400, "BadRequestException", words)
    assert len(lake.metadata_files()) == 1


async def test_sixteen_concurrent_commits_without_requirements_all_succeed(lake: Lake) -> None:
    await lake.create("orders")
    answers = await asyncio.gather(*[lake.commit("orders", set_property(f"p{n}")) for n in range(16)])
    assert [answer.status_code for answer in answers] == [200] * 16
    found = await lake.metadata("orders")
    assert len(found["properties"]) == 16 + len(PERSISTED)


async def test_of_sixteen_commits_with_the_same_requirement_one_wins(lake: Lake) -> None:
    await lake.create("orders")
    appends = [lake.commit("orders", snapshot(n, None), set_main(n), requires=[AT_NONE]) for n in range(1, 17)]
    answers = await asyncio.gather(*appends)
    assert sorted(answer.status_code for answer in answers) == [200] + [409] * 15
    assert len(lake.metadata_files()) == 2


class OvertakenStorage(LocalStorage):
    """Storage in which another server commits just before the first file is written."""

    def __init__(self, lake: Lake, update: dict[str, Any]) -> None:
        super().__init__(lake.managed)
        self._lake, self._update, self._done = lake, update, False

    async def put_unique(self, root: str, path: str, data: bytes) -> bool:
        if not self._done:
            self._done = True
            await commit_elsewhere(self._lake, self._update)
        return await super().put_unique(root, path, data)


async def commit_elsewhere(lake: Lake, update: dict[str, Any]) -> None:
    """Commit as another server would, without the queue of this one."""
    ports = lake.house.ports
    address = Address(Kind.TABLE, ("lake", "sales", "orders"))
    commit = TableCommit(address=address, requirements=[], updates=[update])

    async def prepare(_: Caller) -> list[Part]:
        return [await prepare_commit(ports, LOCAL, commit)]

    await settle(ports, Errand(caller=LOCAL, api="iceberg", request="elsewhere"), prepare)


async def test_a_commit_that_lost_a_race_is_applied_to_the_winning_version(lake: Lake) -> None:
    await lake.create("orders")
    force_setattr(lake.house.ports, "storage", OvertakenStorage(lake, set_property("theirs")))
    assert (await lake.commit("orders", set_property("ours"))).status_code == 200
    assert (await lake.metadata("orders"))["properties"] == {**PERSISTED, "theirs": "1", "ours": "1"}
    assert len(lake.metadata_files()) == 3


async def test_a_commit_that_lost_a_race_is_refused_only_if_its_requirement_fails_on_the_new_version(
    lake: Lake,
) -> None:
    await lake.create("orders")
    uuid = "01939c1e-5a6f-7cc1-9d3e-8f5a2b7c4d12"
    own = {"type": "assert-table-uuid", "uuid": (await lake.metadata("orders"))["table-uuid"]}
    force_setattr(lake.house.ports, "storage", OvertakenStorage(lake, {"action": "assign-uuid", "uuid": uuid}))
    refused(await lake.commit("orders", set_property("a"), requires=[own]), 409, "CommitFailedException", uuid)
    assert len(lake.metadata_files()) == 2


class LostResponseLedger:
    """A ledger whose response to an append is lost."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    async def append(self, draft: Any) -> Any:
        await self._ledger.append(draft)
        raise OutcomeUnknown("the connection broke")


async def test_the_file_of_a_commit_with_unknown_outcome_is_never_deleted(lake: Lake) -> None:
    await lake.create("orders")
    working = lake.house.ports.ledger
    force_setattr(lake.house.ports, "ledger", LostResponseLedger(working))
    unknown = await lake.commit("orders", set_property("a"))
    force_setattr(lake.house.ports, "ledger", working)
    refused(unknown, 500, "CommitStateUnknownException")
    assert "retry-after" not in unknown.headers
    found = (await lake.load("orders")).json()
    assert found["metadata"]["properties"] == {**PERSISTED, "a": "1"}
    assert any(found["metadata-location"].endswith(file) for file in lake.metadata_files())


# --- retries ---------------------------------------------------------------------------------------


async def test_a_retried_commit_is_applied_once(lake: Lake) -> None:
    await lake.create("orders")
    key = str(uuid4())
    first = await lake.commit("orders", snapshot(1, None), set_main(1), requires=[AT_NONE], key=key)
    again = await lake.commit("orders", snapshot(1, None), set_main(1), requires=[AT_NONE], key=key)
    assert (first.status_code, again.status_code) == (200, 200)
    assert again.json() == first.json()
    assert len(lake.metadata_files()) == 2


async def test_a_retry_of_a_refused_request_is_refused_even_if_it_could_succeed_now(lake: Lake) -> None:
    key = str(uuid4())
    for _ in range(2):
        refused(await lake.commit("orders", set_property("a"), key=key), 404, "NoSuchTableException")
        await lake.create("orders")
    key = str(uuid4())
    wrong = [{"type": "assert-current-schema-id", "current-schema-id": 7}]
    for _ in range(2):
        refused(await lake.commit("orders", set_property("a"), requires=wrong, key=key), 409, "CommitFailedException")


async def test_concurrent_requests_with_the_same_key_wait_for_the_first(lake: Lake) -> None:
    key = str(uuid4())
    made = await asyncio.gather(*[lake.create("orders", key=key) for _ in range(5)])
    assert [answer.status_code for answer in made] == [200] * 5
    assert len({answer.json()["metadata"]["table-uuid"] for answer in made}) == 1
    assert len(lake.metadata_files()) == 1


async def test_a_retried_drop_is_carried_out_once(lake: Lake) -> None:
    await lake.create("orders")
    key = str(uuid4())
    assert (await lake.ask("DELETE", to_table("orders"), key=key)).status_code == 204
    await lake.create("orders")
    assert (await lake.ask("DELETE", to_table("orders"), key=key)).status_code == 204
    assert (await lake.load("orders")).status_code == 200


async def test_an_idempotency_key_is_a_uuid_and_identifies_one_request(lake: Lake) -> None:
    await lake.create("orders")
    key = str(uuid4())
    await lake.commit("orders", set_property("a"), key=key)
    refused(await lake.commit("orders", set_property("b"), key=key), 422, "UnprocessableEntityException")
    refused(await lake.commit("orders", set_property("b"), key="mine"), 400, "BadRequestException", "Idempotency-Key")


# --- transactions ----------------------------------------------------------------------------------


def change(name: str, *updates: Any, requires: Any = ()) -> dict[str, Any]:
    return {"identifier": {"namespace": ["sales"], "name": name}, "requirements": requires, "updates": updates}


async def transact(lake: Lake, *changes: Any, key: str | None = None) -> Any:
    return await lake.ask("POST", "/transactions/commit", {"table-changes": changes}, key=key)


async def test_a_transaction_changes_all_tables_in_one_entry(lake: Lake) -> None:
    await lake.create("a")
    await lake.create("b")
    staged = await stage(lake, "c")
    seq = (await lake.house.ledger.position()).seq
    key = str(uuid4())
    for _ in range(2):
        answer = await transact(
            lake,
            change("a", set_property("x")),
            change("b", set_property("x")),
            change("c", *building(staged), requires=CREATE),
            key=key,
        )
        assert (answer.status_code, answer.content) == (204, b"")
    assert (await lake.house.ledger.position()).seq == seq + 1
    found = [(await lake.metadata(name))["properties"] for name in ("a", "b", "c")]
    assert found == [{**PERSISTED, "x": "1"}, {**PERSISTED, "x": "1"}, {}]


async def test_a_transaction_with_a_failing_part_changes_nothing(lake: Lake) -> None:
    await lake.create("a")
    await lake.create("b")
    files = lake.metadata_files()
    wrong = [{"type": "assert-default-spec-id", "default-spec-id": 7}]
    answer = await transact(lake, change("a", set_property("x")), change("b", set_property("x"), requires=wrong))
    refused(answer, 409, "CommitFailedException")
    answer = await transact(lake, change("a", set_property("x")), change("none", set_property("x")))
    refused(answer, 404, "NoSuchTableException")
    assert (await lake.metadata("a"))["properties"] == PERSISTED
    assert lake.metadata_files() == files


async def test_a_transaction_that_contradicts_itself_is_refused(lake: Lake) -> None:
    await lake.create("a")
    twice = await transact(lake, change("a", set_property("x")), change("A", set_property("y")))
    refused(twice, 400, "BadRequestException", "twice")
    refused(await transact(lake), 400, "BadRequestException", "table-changes")
    unnamed = {key: value for key, value in change("a").items() if key != "identifier"}
    refused(await transact(lake, unnamed), 400, "BadRequestException", "identifier")


async def test_transactions_that_name_the_same_tables_in_opposite_order_all_succeed(lake: Lake) -> None:
    await lake.create("a")
    await lake.create("b")
    crossing = [
        transact(lake, *[change(name, set_property(f"p{n}")) for name in (("a", "b") if n % 2 else ("b", "a"))])
        for n in range(8)
    ]
    assert [answer.status_code for answer in await asyncio.gather(*crossing)] == [204] * 8
    assert len((await lake.metadata("a"))["properties"]) == 8 + len(PERSISTED)


# --- old metadata files ----------------------------------------------------------------------------

TIDY = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "2"}


async def test_metadata_files_that_leave_the_log_are_deleted_if_the_table_asks_for_it(lake: Lake) -> None:
    await lake.create("tidy", properties=TIDY)
    await lake.create("kept", properties={"write.metadata.previous-versions-max": "2"})
    for n in range(5):
        for name in ("tidy", "kept"):
            await lake.commit(name, set_property("n", str(n)))
    found = (await lake.load("tidy")).json()
    logged = [entry["metadata-file"] for entry in found["metadata"]["metadata-log"]]
    location = found["metadata"]["location"]
    present = [file for file in lake.metadata_files() if location.endswith(file.partition("/metadata/")[0])]
    assert sorted(f"{location.partition('tables/')[0]}{file}" for file in present) == [
        *logged,
        found["metadata-location"],
    ]
    assert len(lake.metadata_files()) == 3 + 6


async def test_a_log_that_names_other_files_deletes_nothing_outside_the_table(lake: Lake, tmp_path: Path) -> None:
    """The client that registers a table wrote its log, so the log can name any file."""
    made = (await lake.create("orders", properties=TIDY)).json()
    other = (await lake.create("other")).json()
    location = Path(made["metadata"]["location"].removeprefix("file://"))
    (location / "data").mkdir()
    (location / "data" / "part.parquet").write_bytes(b"rows")
    outside = [
        other["metadata-location"],
        f"{location}/../x.metadata.json",
        f"{location}/data/part.parquet",
        "nonsense",
    ]
    log = [{"timestamp-ms": 1, "metadata-file": file} for file in outside]
    forged = made["metadata"] | {"metadata-log": log}
    (location / "metadata" / "forged.metadata.json").write_bytes(msgspec.json.encode(forged))
    body = {
        "name": "orders",
        "metadata-location": f"file://{location}/metadata/forged.metadata.json",
        "overwrite": True,
    }
    assert (await lake.ask("POST", f"{to_space('sales')}/register", body)).status_code == 200
    for n in range(4):
        assert (await lake.commit("orders", set_property("n", str(n)))).status_code == 200
    assert (location / "data" / "part.parquet").exists()
    assert (await lake.load("other")).status_code == 200
