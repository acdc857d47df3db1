"""Sections C, D and E: the content of a commit, its version, and retries."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from moorage.core.entries import Commit, Draft, Receipt, Update
from moorage.ledger.sqlite import SqliteLedger
from moorage.testing import builders as make
from moorage.testing import delta_writer as write
from moorage.testing.builders import HOUR_MS, START_MS
from moorage.usecases.upkeep.publish import publish_due
from tests.api.delta.cases import INVALID, refuses, row
from tests.api.delta.delta_client import CLASSIC, TABLES, UNITY, DeltaClient, Staged, kebab, ok
from tests.api.house import House, open_house

UNKNOWN_ID = "00000000-0000-4000-8000-000000000000"
CONFLICT = ("ALREADY_EXISTS", "CommitVersionConflictException")


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        row(48, "no id", {"table_id": None}, 400),
        row(48, "an empty id", {"table_id": ""}, 400),
        row(49, "not a UUID", {"table_id": "x"}, 400),
        row(50, "an unknown id", {"table_id": UNKNOWN_ID}, 404),
        row(51, "no uri", {"table_uri": None}, 400),
        row(51, "an empty uri", {"table_uri": ""}, 400),
        row(52, "another location", {"table_uri": "file:///elsewhere"}, 400),
        row(52, "an invalid location", {"table_uri": ".."}, 400),
        row(54, "neither a commit nor a published version", {"commit_info": None}, 400),
        row(63, "a commit of another type", {"commit_info": "x"}, 400),
        row(63, "an id of another type", {"table_id": 7}, 400),
    ],
)
@pytest.mark.parametrize("family", ["spec", "preview"])
async def test_a_request_without_a_valid_table_and_content_is_refused(
    spec: DeltaClient, family: str, changes: dict[str, Any], status: int
) -> None:
    client = DeltaClient(spec.http, family)
    table = await client.make()
    names = INVALID if status == 400 else ("TABLE_DOES_NOT_EXIST",)
    given = {"commit_info": table.stage(1), **changes}
    refuses(await client.commit(table, given.pop("commit_info"), **given), status, *names)
    assert await client.announced(table) == ([], 0)


@pytest.mark.parametrize("spelling", [row(53, text, text) for text in ("file:{0}", "file://{0}", "file:{0}/", "{0}")])
@pytest.mark.parametrize("family", ["spec", "preview"])
async def test_a_location_is_accepted_in_equivalent_spellings(spec: DeltaClient, family: str, spelling: str) -> None:
    client = DeltaClient(spec.http, family)
    table = await client.make()
    ok(await client.commit(table, table.stage(1), table_uri=spelling.format(table.folder)))


WRONG = {"null": None, "zero": 0, "negative": -1}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *[row(55, f"version {what}", "version", value) for what, value in WRONG.items()],
        *[row(56, f"timestamp {what}", "timestamp", value) for what, value in WRONG.items()],
        row(57, "no name", "file_name", None),
        row(57, "an empty name", "file_name", ""),
        *[
            row(58, repr(name), "file_name", name)
            for name in ("a/b.json", "..\\b.json", ".", "..", "../x.json", "x", "x.parquet", ".json", "x.json\n")
        ],
        row(58, "the name of another version", "file_name", f"{2:020}.a.json"),
        *[row(59, f"size {what}", "file_size", value) for what, value in WRONG.items()],
        *[row(60, f"modified {what}", "file_modification_timestamp", value) for what, value in WRONG.items()],
        row(65, "no such file", "file_name", f"{1:020}.nowhere.json"),
        row(66, "another size", "file_size", 7),
        row(66, "a larger size", "file_size", 10_000_000),
        row(67, "the time of the last version", "timestamp", START_MS),
        row(67, "another time than the file's", "timestamp", START_MS + 99),
    ],
)
async def test_a_commit_that_differs_from_its_file_is_refused(client: DeltaClient, field: str, value: Any) -> None:
    table = await client.make()
    info = {**table.stage(1), field: value}
    refuses(await client.commit(table, info), 400, *INVALID)
    assert await client.announced(table) == ([], 0)


@pytest.mark.parametrize("field", ["version", "timestamp", "file_name", "file_size", "file_modification_timestamp"])
async def test_a_commit_with_a_missing_field_is_refused(client: DeltaClient, field: str) -> None:
    table = await client.make()
    info = table.stage(1)
    del info[field]
    refuses(await client.commit(table, info), 400, *INVALID, field.replace("_", "-" if client.family == "v1" else "_"))


@pytest.mark.parametrize("kind", [row(61, "external", "DELTA"), row(62, "not a Delta table", "PARQUET")])
async def test_only_managed_delta_tables_accept_commits(client: DeltaClient, kind: str) -> None:
    body = {**CLASSIC, "name": "ext", "table_type": "EXTERNAL", "data_source_format": kind, "columns": []}
    made = ok(await client.http.post(f"{UNITY}/tables", json={**body, "storage_location": "/data/ext"}))
    table = Staged("ext", made["table_id"], made["storage_location"])
    info = {"version": 1, "timestamp": 1, "file_name": "a.json", "file_size": 1, "file_modification_timestamp": 1}
    other = ("UnsupportedTableFormatException",) if (client.family, kind) == ("v1", "PARQUET") else INVALID
    refuses(await client.commit(table, info), 400, *other)


async def test_case_63_an_unreadable_body_is_refused_without_a_traceback(spec: DeltaClient) -> None:
    for path in (f"{UNITY}/delta/commit", f"{UNITY}/delta/preview/commits", f"{TABLES}/t"):
        for body in (b"", b"{", b"[]", b"null"):
            answer = await spec.http.post(path, content=body)
            refuses(answer, 400, *INVALID)
            assert "Traceback" not in answer.text


async def test_case_64_unknown_fields_are_ignored_and_both_names_of_the_published_version_are_accepted(
    spec: DeltaClient,
) -> None:
    table = await spec.make()
    unknown: dict[str, Any] = {"protocol": {"minReaderVersion": 3}, "delta_table_id": "x", "is_disown_commit": False}
    info = table.stage(1)
    ok(await spec.commit(table, info, **unknown))
    write.publish(table.folder, info)
    ok(await spec.commit(table, latest_backfilled_version=1))
    assert await spec.announced(table) == ([], 1)
    refuses(await spec.commit(table, published=1, latest_backfilled_version=0), 400, *INVALID)


async def test_case_67_a_timestamp_more_than_24_hours_ahead_is_refused(client: DeltaClient) -> None:
    table = await client.make()
    ahead = START_MS + 25 * HOUR_MS
    refuses(await client.commit(table, table.stage(1, timestamp=ahead)), 400, *INVALID, "24 hours")
    ok(await client.commit(table, table.stage(1, timestamp=START_MS + 23 * HOUR_MS)))


# --- the staged file -----------------------------------------------------------------------------

INFO = write.commit_info(START_MS + 1)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "commitInfo"),
        (b"not json\n", ""),
        (write.lines(write.add(), INFO), "commitInfo"),
        (write.lines({"commitInfo": {"operation": "WRITE"}}, write.add()), "inCommitTimestamp"),
        (write.lines(INFO, write.protocol(), write.protocol()), "protocol"),
        (write.lines(INFO, write.add("../up.parquet")), "outside"),
        (write.lines(INFO, write.add("%2E%2E/up.parquet")), "outside"),
        (write.lines(INFO, write.add("s3://other/part.parquet")), "outside"),
        (write.lines(INFO, write.remove("file:///etc/passwd")), "outside"),
        (write.lines(INFO, {"cdc": {"path": "/x", "partitionValues": {}, "size": 1, "dataChange": False}}), "outside"),
        *[
            (write.lines(write.commit_info(START_MS + 1, name), write.add()), "maintenance")
            for name in ("OPTIMIZE", "VACUUM START", "VACUUM END", "REORG", "optimize")
        ],
        (write.lines(INFO, write.protocol(("catalogManaged", "vacuumProtocolCheck"))), "before this commit"),
    ],
)
async def test_a_staged_file_that_breaks_a_rule_is_refused(client: DeltaClient, data: bytes, reason: str) -> None:
    table = await client.make()
    info = write.stage_bytes(table.folder, 1, START_MS + 1, data)
    refuses(
        await client.commit(table, {**info, "file_size": max(len(data), 1)}), 400, *INVALID, *([reason] if data else [])
    )
    assert await client.announced(table) == ([], 0)
    ok(await client.commit(table, table.stage(1)))


async def test_a_file_of_more_than_a_megabyte_is_published_from_its_staged_file(
    client: DeltaClient, house: House
) -> None:
    table = await client.make()
    info = table.stage(1, *[write.add() for _ in range(8000)])
    assert info["file_size"] > 1024 * 1024
    ok(await client.commit(table, info))
    [staged] = await house.ledger.staged()
    assert staged.bytes is None
    assert await publish_due(house.ports) == 1
    assert write.published(table.folder) == [0, 1]


async def test_a_file_that_the_ledger_does_not_store_is_durable_before_it_is_ratified(
    client: DeltaClient, house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients do not sync their files, and a power failure must not destroy a file that an entry refers to."""
    steps: list[str] = []
    append, keep = type(house.ledger).append, type(house.ports.storage).make_durable

    async def recorded_append(ledger: Any, draft: Draft) -> Receipt:
        steps.append("append")
        return await append(ledger, draft)

    async def recorded_keep(storage: Any, root: str, path: str) -> None:
        await keep(storage, root, path)
        steps.append(f"keep {path}")

    staged = await client.stage("t")
    staged.write_first()
    monkeypatch.setattr(type(house.ledger), "append", recorded_append)
    monkeypatch.setattr(type(house.ports.storage), "make_durable", recorded_keep)
    ok(await client.create(staged))
    assert steps == [f"keep _delta_log/{0:020}.json", "append"]
    ok(await client.commit(staged, staged.stage(1)))
    info = staged.stage(2, *[write.add() for _ in range(8000)])
    ok(await client.commit(staged, info))
    assert steps[2:] == ["append", f"keep _delta_log/_staged_commits/{info['file_name']}", "append"]


# --- versions ------------------------------------------------------------------------------------


async def test_case_68_to_72_versions_must_be_consecutive(client: DeltaClient) -> None:
    table = await client.make()
    assert await client.announced(table) == ([], 0)
    refuses(await client.commit(table, table.stage(5)), 400, *INVALID, "skips")
    ok(await client.commit(table, table.stage(1)))
    ok(await client.commit(table, table.stage(2)))
    refuses(await client.commit(table, table.stage(4)), 400, *INVALID, "skips")
    assert await client.announced(table) == ([1, 2], 2)


async def test_case_73_a_taken_version_is_a_conflict(client: DeltaClient) -> None:
    table = await client.make()
    for version in (1, 2):
        ok(await client.commit(table, table.stage(version)))
    for version in (1, 2):
        answer = await client.commit(table, table.stage(version))
        refuses(answer, 409, *CONFLICT)
        if client.family != "v1":
            assert answer.json()["details"][0]["reason"] == "COMMIT_VERSION_CONFLICT"


async def test_case_74_and_75_one_of_twelve_writers_wins_a_version(client: DeltaClient) -> None:
    table = await client.make()
    for version in (1, 2, 3):
        answers = await asyncio.gather(*[client.commit(table, table.stage(version)) for _ in range(12)])
        assert sorted(answer.status_code for answer in answers) == [200, *[409] * 11]
    assert await client.announced(table) == ([1, 2, 3], 3)


class ConflictingLedger(SqliteLedger):
    """A ledger in which another writer updates the table before every commit."""

    async def append(self, draft: Draft) -> Receipt:
        for commit in (change for change in draft.changes if isinstance(change, Commit) and change.version > 0):
            table = (await self.lineage(commit.table)).chain[-1]
            await super().append(make.draft(Update(id=table.id, doc=table.doc)))
        return await super().append(draft)


@pytest.mark.parametrize("family", ["spec", "preview", "v1"])
async def test_case_76_a_commit_that_always_conflicts_receives_a_conflict(tmp_path: Path, family: str) -> None:
    data = tmp_path / "data"
    ledger = await ConflictingLedger.open(data, clock_ms=make.Clock())
    async with open_house(data, ledger=ledger) as house:
        client = DeltaClient(house.console.http, family)
        await client.furnish()
        table = await client.make()
        refuses(await client.commit(table, table.stage(1)), 409, "ABORTED", "UpdateRequirementConflictException")
        assert await client.announced(table) == ([], 0)


async def test_case_77_no_order_of_proposals_leaves_a_gap(client: DeltaClient) -> None:
    table = await client.make()
    staged = {version: table.stage(version) for version in range(1, 7)}
    latest = 0
    for version in (3, 1, 6, 2, 4, 2, 3, 5, 4, 1, 6, 5, 6):
        answer = await client.commit(table, staged[version])
        assert answer.status_code == (400 if version > latest + 1 else 200), answer.text
        latest = max(latest, version) if answer.status_code == 200 else latest
        assert await client.announced(table) == (list(range(1, latest + 1)), latest)
    assert latest == 6


async def test_case_78_a_dropped_table_accepts_no_commits(client: DeltaClient) -> None:
    table = await client.make()
    ok(await client.http.delete(f"{UNITY}/tables/lake.sea.t"))
    refuses(await client.commit(table, table.stage(1)), 404, "TABLE_DOES_NOT_EXIST", "NoSuchTableException")


async def test_case_79_a_new_table_of_the_same_name_does_not_accept_commits_for_the_old_id(client: DeltaClient) -> None:
    old = await client.make()
    ok(await client.http.delete(f"{UNITY}/tables/lake.sea.t"))
    await client.make()
    if client.family == "v1":
        refuses(await client.commit(old, old.stage(1)), 409, "UpdateRequirementConflictException")
    else:
        refuses(await client.commit(old, old.stage(1)), 404, "TABLE_DOES_NOT_EXIST")


# --- retries -------------------------------------------------------------------------------------


async def test_case_80_to_82_a_commit_can_be_retried_at_any_time(client: DeltaClient, house: House) -> None:
    table = await client.make()
    infos = [table.stage(version) for version in (1, 2, 3)]
    for info in infos:
        ok(await client.commit(table, info))
    seq = (await house.ledger.position()).seq
    for info in infos:
        ok(await client.commit(table, info))
        write.publish(table.folder, info)
    ok(await client.commit(table, published=3))
    for info in infos:
        ok(await client.commit(table, info))
    assert (await house.ledger.position()).seq == seq
    assert await client.announced(table) == ([], 3)


async def test_case_83_a_retry_records_no_published_version(client: DeltaClient) -> None:
    table = await client.make()
    info = table.stage(1)
    ok(await client.commit(table, info))
    write.publish(table.folder, info)
    ok(await client.commit(table, info, published=1))
    assert await client.announced(table) == ([1], 1)


async def test_case_84_a_retry_does_not_change_the_description(client: DeltaClient) -> None:
    table = await client.make()
    before = ok(await client.get_table())
    info = table.stage(1)
    ok(await client.commit(table, info))
    if client.family == "v1":
        ok(await client.commit(table, info, actions=[{"action": "set-properties", "updates": {"a": "b"}}]))
    else:
        ok(await client.commit(table, info, metadata={"description": "other"}))
    assert ok(await client.get_table()) == before


async def test_case_85_a_retry_may_contain_an_old_etag(v1: DeltaClient) -> None:
    table = await v1.make()
    etag = ok(await v1.load())["metadata"]["etag"]
    changed = write.metadata(write.configuration(table.id, k="v"))
    info = table.stage(1, changed, write.add())
    after = ok(await v1.commit(table, info, etag=etag))
    assert after["metadata"]["etag"] != etag
    assert ok(await v1.commit(table, info, etag=etag)) == after
    refuses(await v1.commit(table, table.stage(2), etag=etag), 409, "UpdateRequirementConflictException")


async def test_case_86_to_88_a_commit_can_be_retried_after_it_is_no_longer_announced(client: DeltaClient) -> None:
    table = await client.make()
    info = table.stage(1)
    ok(await client.commit(table, info))
    write.publish(table.folder, info)
    ok(await client.commit(table, published=1))
    (table.folder / "_delta_log/_staged_commits" / info["file_name"]).unlink()
    ok(await client.commit(table, info))
    refuses(await client.commit(table, table.stage(1)), 409, *CONFLICT)


async def test_a_retry_with_an_idempotency_key_returns_the_original_response(client: DeltaClient) -> None:
    table = await client.make()
    info = table.stage(1)
    client.http.headers["idempotency-key"] = "k"
    first = ok(await client.commit(table, info))
    assert ok(await client.commit(table, info)) == first
    refuses(await client.commit(table, table.stage(2)), 422)


async def test_the_response_to_a_commit_is_json(client: DeltaClient) -> None:
    table = await client.make()
    answer = await client.commit(table, table.stage(1))
    assert answer.headers["content-type"] == "application/json"
    if client.family == "v1":
        [commit] = answer.json()["commits"]
        assert set(commit) == set(kebab(table.stage(2)))
    else:
        assert answer.text == "{}"
