"""Commits: conflicts that are real, races that are not, and repeated requests."""

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
from tests.api.iceberg.lake import Lake, refused, set_property, to_space, to_table
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


async def test_every_version_is_answered_and_filed_alike_whatever_was_copied(lake: Lake) -> None:
    answer = (await lake.create("orders")).json()
    gone = {"action": "remove-snapshots", "snapshot-ids": [2]}
    commits = [(snapshot(id, id - 1 or None), set_main(id)) for id in (1, 2, 3)]
    for updates in (*commits, (set_property("a"),), (gone,), (snapshot(4, 3), set_main(4))):
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
async def test_what_cannot_be_applied_is_a_bad_request(lake: Lake, body: Any, words: str) -> None:
    await lake.create("orders")
    refused(await lake.ask("POST", to_table("orders"), body), 400, "BadRequestException", words)
    assert len(lake.metadata_files()) == 1


async def test_sixteen_commits_at_once_all_succeed_when_nothing_they_require_fails(lake: Lake) -> None:
    await lake.create("orders")
    answers = await asyncio.gather(*[lake.commit("orders", set_property(f"p{n}")) for n in range(16)])
    assert [answer.status_code for answer in answers] == [200] * 16
    found = await lake.metadata("orders")
    assert len(found["properties"]) == 16


async def test_of_sixteen_that_require_the_same_one_wins(lake: Lake) -> None:
    await lake.create("orders")
    appends = [lake.commit("orders", snapshot(n, None), set_main(n), requires=[AT_NONE]) for n in range(1, 17)]
    answers = await asyncio.gather(*appends)
    assert sorted(answer.status_code for answer in answers) == [200] + [409] * 15
    assert len(lake.metadata_files()) == 2


class Overtaken(LocalStorage):
    """Storage in which somebody else's commit, made by another server, comes before the first file."""

    def __init__(self, lake: Lake, update: dict[str, Any]) -> None:
        super().__init__(lake.managed)
        self._lake, self._update, self._done = lake, update, False

    async def put_unique(self, root: str, path: str, data: bytes) -> bool:
        if not self._done:
            self._done = True
            await commit_elsewhere(self._lake, self._update)
        return await super().put_unique(root, path, data)


async def commit_elsewhere(lake: Lake, update: dict[str, Any]) -> None:
    """As another server would: it knows nothing of the queue in this one."""
    ports = lake.house.ports
    address = Address(Kind.TABLE, ("lake", "sales", "orders"))
    commit = TableCommit(address=address, requirements=[], updates=[update])

    async def prepare(_: Caller) -> list[Part]:
        return [await prepare_commit(ports, LOCAL, commit)]

    await settle(ports, Errand(caller=LOCAL, api="iceberg", request="elsewhere"), prepare)


async def test_a_commit_that_was_overtaken_is_applied_to_what_overtook_it(lake: Lake) -> None:
    await lake.create("orders")
    force_setattr(lake.house.ports, "storage", Overtaken(lake, set_property("theirs")))
    assert (await lake.commit("orders", set_property("ours"))).status_code == 200
    assert (await lake.metadata("orders"))["properties"] == {"theirs": "1", "ours": "1"}
    assert len(lake.metadata_files()) == 3


async def test_a_commit_that_was_overtaken_is_refused_only_if_its_requirement_fails_then(lake: Lake) -> None:
    await lake.create("orders")
    uuid = "01939c1e-5a6f-7cc1-9d3e-8f5a2b7c4d12"
    own = {"type": "assert-table-uuid", "uuid": (await lake.metadata("orders"))["table-uuid"]}
    force_setattr(lake.house.ports, "storage", Overtaken(lake, {"action": "assign-uuid", "uuid": uuid}))
    refused(await lake.commit("orders", set_property("a"), requires=[own]), 409, "CommitFailedException", uuid)
    assert len(lake.metadata_files()) == 2


class Forgetful:
    """A ledger whose answer to an append gets lost on the way."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    async def append(self, draft: Any) -> Any:
        await self._ledger.append(draft)
        raise OutcomeUnknown("the connection broke")


async def test_the_file_of_a_commit_that_may_have_happened_is_never_removed(lake: Lake) -> None:
    await lake.create("orders")
    whole = lake.house.ports.ledger
    force_setattr(lake.house.ports, "ledger", Forgetful(whole))
    unknown = await lake.commit("orders", set_property("a"))
    force_setattr(lake.house.ports, "ledger", whole)
    refused(unknown, 500, "CommitStateUnknownException")
    assert "retry-after" not in unknown.headers
    found = (await lake.load("orders")).json()
    assert found["metadata"]["properties"] == {"a": "1"}
    assert any(found["metadata-location"].endswith(file) for file in lake.metadata_files())


# --- repeated requests -----------------------------------------------------------------------------


async def test_a_repeated_commit_is_applied_once(lake: Lake) -> None:
    await lake.create("orders")
    key = str(uuid4())
    first = await lake.commit("orders", snapshot(1, None), set_main(1), requires=[AT_NONE], key=key)
    again = await lake.commit("orders", snapshot(1, None), set_main(1), requires=[AT_NONE], key=key)
    assert (first.status_code, again.status_code) == (200, 200)
    assert again.json() == first.json()
    assert len(lake.metadata_files()) == 2


async def test_a_repeated_refusal_stays_one_even_if_it_would_succeed_now(lake: Lake) -> None:
    key = str(uuid4())
    for _ in range(2):
        refused(await lake.commit("orders", set_property("a"), key=key), 404, "NoSuchTableException")
        await lake.create("orders")
    key = str(uuid4())
    wrong = [{"type": "assert-current-schema-id", "current-schema-id": 7}]
    for _ in range(2):
        refused(await lake.commit("orders", set_property("a"), requires=wrong, key=key), 409, "CommitFailedException")


async def test_a_twin_in_flight_waits_for_the_first(lake: Lake) -> None:
    key = str(uuid4())
    made = await asyncio.gather(*[lake.create("orders", key=key) for _ in range(5)])
    assert [answer.status_code for answer in made] == [200] * 5
    assert len({answer.json()["metadata"]["table-uuid"] for answer in made}) == 1
    assert len(lake.metadata_files()) == 1


async def test_a_repeated_drop_is_done_once(lake: Lake) -> None:
    await lake.create("orders")
    key = str(uuid4())
    assert (await lake.ask("DELETE", to_table("orders"), key=key)).status_code == 204
    await lake.create("orders")
    assert (await lake.ask("DELETE", to_table("orders"), key=key)).status_code == 204
    assert (await lake.load("orders")).status_code == 200


async def test_a_key_stands_for_one_request_and_is_a_uuid(lake: Lake) -> None:
    await lake.create("orders")
    key = str(uuid4())
    await lake.commit("orders", set_property("a"), key=key)
    refused(await lake.commit("orders", set_property("b"), key=key), 422, "UnprocessableEntityException")
    refused(await lake.commit("orders", set_property("b"), key="mine"), 400, "BadRequestException", "Idempotency-Key")


# --- several tables at once ------------------------------------------------------------------------


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
    assert [(await lake.metadata(name))["properties"] for name in ("a", "b", "c")] == [{"x": "1"}, {"x": "1"}, {}]


async def test_a_transaction_of_which_one_part_fails_changes_nothing(lake: Lake) -> None:
    await lake.create("a")
    await lake.create("b")
    files = lake.metadata_files()
    wrong = [{"type": "assert-default-spec-id", "default-spec-id": 7}]
    answer = await transact(lake, change("a", set_property("x")), change("b", set_property("x"), requires=wrong))
    refused(answer, 409, "CommitFailedException")
    answer = await transact(lake, change("a", set_property("x")), change("none", set_property("x")))
    refused(answer, 404, "NoSuchTableException")
    assert (await lake.metadata("a"))["properties"] == {}
    assert lake.metadata_files() == files


async def test_a_transaction_that_contradicts_itself_is_refused(lake: Lake) -> None:
    await lake.create("a")
    twice = await transact(lake, change("a", set_property("x")), change("A", set_property("y")))
    refused(twice, 400, "BadRequestException", "twice")
    refused(await transact(lake), 400, "BadRequestException", "table-changes")
    unnamed = {key: value for key, value in change("a").items() if key != "identifier"}
    refused(await transact(lake, unnamed), 400, "BadRequestException", "identifier")


async def test_transactions_that_cross_each_other_all_succeed(lake: Lake) -> None:
    await lake.create("a")
    await lake.create("b")
    crossing = [
        transact(lake, *[change(name, set_property(f"p{n}")) for name in (("a", "b") if n % 2 else ("b", "a"))])
        for n in range(8)
    ]
    assert [answer.status_code for answer in await asyncio.gather(*crossing)] == [204] * 8
    assert len((await lake.metadata("a"))["properties"]) == 8


# --- old metadata files ----------------------------------------------------------------------------

TIDY = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "2"}


async def test_metadata_files_that_fall_off_the_log_go_if_the_owner_wants_it(lake: Lake) -> None:
    await lake.create("tidy", properties=TIDY)
    await lake.create("kept", properties={"write.metadata.previous-versions-max": "2"})
    for n in range(5):
        for name in ("tidy", "kept"):
            await lake.commit(name, set_property("n", str(n)))
    found = (await lake.load("tidy")).json()
    logged = [entry["metadata-file"] for entry in found["metadata"]["metadata-log"]]
    place = found["metadata"]["location"]
    there = [file for file in lake.metadata_files() if place.endswith(file.partition("/metadata/")[0])]
    assert sorted(f"{place.partition('tables/')[0]}{file}" for file in there) == [*logged, found["metadata-location"]]
    assert len(lake.metadata_files()) == 3 + 6


async def test_a_log_that_names_foreign_files_has_nothing_removed_outside_of_the_table(
    lake: Lake, tmp_path: Path
) -> None:
    """Whoever registers a table writes its log."""
    made = (await lake.create("orders", properties=TIDY)).json()
    other = (await lake.create("other")).json()
    place = Path(made["metadata"]["location"].removeprefix("file://"))
    (place / "data").mkdir()
    (place / "data" / "part.parquet").write_bytes(b"rows")
    outside = [other["metadata-location"], f"{place}/../x.metadata.json", f"{place}/data/part.parquet", "nonsense"]
    log = [{"timestamp-ms": 1, "metadata-file": file} for file in outside]
    forged = made["metadata"] | {"metadata-log": log}
    (place / "metadata" / "forged.metadata.json").write_bytes(msgspec.json.encode(forged))
    body = {"name": "orders", "metadata-location": f"file://{place}/metadata/forged.metadata.json", "overwrite": True}
    assert (await lake.ask("POST", f"{to_space('sales')}/register", body)).status_code == 200
    for n in range(4):
        assert (await lake.commit("orders", set_property("n", str(n)))).status_code == 200
    assert (place / "data" / "part.parquet").exists()
    assert (await lake.load("other")).status_code == 200
