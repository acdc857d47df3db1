"""Section K: the actions and requirements of /delta/v1."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from moorage.testing import delta_writer as write
from moorage.testing.builders import START_MS
from tests.api.delta.cases import refuses, row
from tests.api.delta.delta_client import TABLES, Body, DeltaClient, Staged, kebab, ok
from tests.api.house import House

INVALID = "InvalidParameterValueException"
CONFLICT = "UpdateRequirementConflictException"
UNKNOWN_ID = "00000000-0000-4000-8000-000000000000"
PROTOCOL = {"min-reader-version": 3, "min-writer-version": 7}
COLUMNS = {"type": "struct", "fields": list(write.COLUMNS)}


async def external(v1: DeltaClient, *partitions: str) -> Staged:
    fields = [*write.COLUMNS, {"name": "day", "type": "date", "nullable": True, "metadata": {}}]
    body = v1.v1_body(Staged("ext", "", "file:///data/ext"))
    body |= {
        "table-type": "EXTERNAL",
        "columns": {"type": "struct", "fields": fields},
        "properties": {"k": "v"},
        "partition-columns": list(partitions),
    }
    made = ok(await v1.http.post(TABLES, json=body))
    return Staged("ext", made["metadata"]["table-uuid"], "file:///data/ext")


def set_properties(**updates: str) -> dict[str, Any]:
    return {"action": "set-properties", "updates": updates}


def comment(text: str = "c") -> dict[str, Any]:
    return {"action": "set-table-comment", "comment": text}


async def test_case_139_an_update_without_actions_or_without_a_table_id_is_refused(v1: DeltaClient) -> None:
    table = await v1.make()
    refuses(await v1.update(table), 400, INVALID)
    bodies: list[dict[str, Any]] = [{"requirements": [], "updates": [comment()]}, {"updates": [comment()]}]
    for body in (*bodies, {"requirements": []}):
        refuses(await v1.http.post(f"{TABLES}/t", json=body), 400, INVALID)


async def test_case_140_an_unmet_requirement_is_a_conflict(v1: DeltaClient) -> None:
    table = await v1.make()
    other = Staged("t", UNKNOWN_ID, table.location)
    refuses(await v1.update(other, comment()), 409, CONFLICT)
    refuses(await v1.commit(other, table.stage(1)), 409, CONFLICT)
    refuses(await v1.update(table, comment(), etag="x"), 409, CONFLICT)
    refuses(await v1.commit(table, table.stage(1), etag="x"), 409, CONFLICT)


@pytest.mark.parametrize(
    "actions",
    [
        row(141, "two comments", [comment("a"), comment("b")]),
        row(141, "two of properties", [set_properties(a="b"), set_properties(c="d")]),
        row(142, "one key", [set_properties(a="b"), {"action": "remove-properties", "removals": ["a"]}]),
        row(
            142,
            "one domain",
            [
                {
                    "action": "set-domain-metadata",
                    "updates": {"delta.clustering": {"clusteringColumns": [["id"]]}},
                },
                {"action": "remove-domain-metadata", "domains": ["delta.clustering"]},
            ],
        ),
        row(143, "an unknown action", [{"action": "sink"}]),
        row(143, "no action", [{"updates": {}}]),
        row(144, "null protocol", [{"action": "set-protocol", "protocol": None}]),
        row(144, "no protocol", [{"action": "set-protocol"}]),
        row(144, "a lesser protocol", [{"action": "set-protocol", "protocol": PROTOCOL}]),
        row(146, "null domains", [{"action": "set-domain-metadata", "updates": None}]),
        row(146, "no domains", [{"action": "set-domain-metadata", "updates": {}}]),
        row(146, "an unknown domain", [{"action": "remove-domain-metadata", "domains": ["x"]}]),
        row(147, "no columns", [{"action": "set-columns"}]),
        row(147, "no fields", [{"action": "set-columns", "columns": {"type": "struct"}}]),
        row(147, "empty", [{"action": "set-columns", "columns": {"type": "struct", "fields": []}}]),
        row(149, "null partitions", [{"action": "set-partition-columns", "partition-columns": None}]),
        row(149, "an unknown one", [{"action": "set-partition-columns", "partition-columns": ["x"]}]),
        row(150, "null comment", [{"action": "set-table-comment", "comment": None}]),
        row(
            151,
            "on a managed table",
            [
                {
                    "action": "update-metadata-snapshot-version",
                    "last-commit-version": 1,
                    "last-commit-timestamp-ms": 1,
                }
            ],
        ),
        row(153, "no commit", [{"action": "add-commit"}]),
        row(153, "no version", [{"action": "set-latest-backfilled-version"}]),
        row(148, "columns without a commit", [{"action": "set-columns", "columns": COLUMNS}]),
        row(148, "properties without a commit", [set_properties(a="b")]),
    ],
)
async def test_an_invalid_update_is_refused(v1: DeltaClient, house: House, actions: list[dict[str, Any]]) -> None:
    table = await v1.make()
    before, seq = ok(await v1.load()), (await house.ledger.position()).seq
    refuses(await v1.update(table, *actions), 400, INVALID)
    assert ok(await v1.load()) == before
    assert (await house.ledger.position()).seq == seq


async def test_case_141_two_requirements_of_one_type_are_refused(v1: DeltaClient) -> None:
    table = await v1.make()
    required = [{"type": "assert-table-uuid", "uuid": table.id}] * 2
    body = {"requirements": required, "updates": [comment()]}
    refuses(await v1.http.post(f"{TABLES}/t", json=body), 400, INVALID)
    unknown = [required[0], {"type": "assert-nothing"}]
    refuses(await v1.http.post(f"{TABLES}/t", json={**body, "requirements": unknown}), 400, INVALID)


async def test_case_145_row_tracking_is_removed_together_with_its_high_water_mark(v1: DeltaClient) -> None:
    features = (*write.ALL_FEATURES, "domainMetadata", "rowTracking")
    staged = await v1.stage()
    rows = write.domain("delta.rowTracking", {"rowIdHighWaterMark": 4})
    staged.write_first(rows, features=features)
    high_water_mark = {"delta.rowTracking": {"rowIdHighWaterMark": 4}}
    made = ok(await v1.create(staged, features=features, **{"domain-metadata": high_water_mark}))
    assert made["metadata"]["properties"]["delta.rowTracking.rowIdHighWaterMark"] == "4"
    less = write.protocol((*write.ALL_FEATURES, "domainMetadata"))
    refuses(await v1.commit(staged, staged.stage(1, less)), 400, INVALID, "rowTracking")
    gone = write.domain("delta.rowTracking", {}, removed=True)
    removal = {"action": "remove-domain-metadata", "domains": ["delta.rowTracking"]}
    suspended = write.metadata(write.configuration(staged.id, **{"delta.rowTrackingSuspended": "true"}))
    ok(await v1.commit(staged, staged.stage(1, suspended)))
    ok(await v1.commit(staged, staged.stage(2, less, gone), actions=[removal]))


async def test_case_148_new_columns_of_an_external_table_keep_the_partition_columns_by_name(v1: DeltaClient) -> None:
    table = await external(v1, "day")
    fields: list[dict[str, Any]] = [
        {"name": name, "type": "date", "nullable": True, "metadata": {}} for name in ("x", "DAY")
    ]
    after = ok(await v1.update(table, {"action": "set-columns", "columns": {"type": "struct", "fields": fields}}))
    assert after["metadata"]["partition-columns"] == ["DAY"]
    assert [field["name"] for field in after["metadata"]["columns"]["fields"]] == ["x", "DAY"]
    vanished = {"action": "set-columns", "columns": {"type": "struct", "fields": fields[:1]}}
    refuses(await v1.update(table, vanished), 400, INVALID, "partition")


async def test_case_151_and_152_an_external_table_accepts_a_snapshot_version_but_no_commit(v1: DeltaClient) -> None:
    table = await external(v1)
    snapshot = {"action": "update-metadata-snapshot-version"}
    refuses(await v1.update(table, snapshot), 400, INVALID)
    whole = {**snapshot, "last-commit-version": 3, "last-commit-timestamp-ms": START_MS}
    after = ok(await v1.update(table, whole))["metadata"]
    assert (after["last-commit-version"], after["last-commit-timestamp-ms"]) == (3, START_MS)
    commit = {"version": 1, "timestamp": 1, "file-name": "a.json", "file-size": 1, "file-modification-timestamp": 1}
    for action in (
        {"action": "set-latest-backfilled-version", "latest-published-version": 0},
        {"action": "add-commit", "commit": commit},
    ):
        refuses(await v1.update(table, action), 400, INVALID, "external")


async def test_every_descriptive_action_changes_an_external_table(v1: DeltaClient) -> None:
    table = await external(v1)
    before = ok(await v1.load("ext"))["metadata"]["etag"]
    after = ok(
        await v1.update(
            table,
            comment("words"),
            set_properties(a="b"),
            {"action": "remove-properties", "removals": ["k"]},
            {"action": "set-partition-columns", "partition-columns": ["day"]},
            {"action": "set-protocol", "protocol": {**PROTOCOL, "writer-features": ["clustering"]}},
            {"action": "set-domain-metadata", "updates": {"delta.clustering": {"clusteringColumns": [["id"]]}}},
            etag=before,
        )
    )["metadata"]
    assert after["etag"] != before
    assert after["partition-columns"] == ["day"]
    assert after["properties"]["a"] == "b"
    assert "k" not in after["properties"]
    assert after["properties"]["delta.feature.clustering"] == "supported"
    assert after["properties"]["clusteringColumns"] == '[["id"]]'
    assert ok(await v1.get_table("ext"))["comment"] == "words"
    gone = {"action": "remove-domain-metadata", "domains": ["delta.clustering"]}
    assert "clusteringColumns" not in ok(await v1.update(table, gone))["metadata"]["properties"]


async def test_case_154_a_commit_that_changes_the_description_changes_the_etag(v1: DeltaClient, house: House) -> None:
    table = await v1.make()
    before = ok(await v1.load())["metadata"]
    house.clock.advance(1000)
    changed = write.metadata(write.configuration(table.id, k="v"))
    after = ok(await v1.commit(table, table.stage(1, changed), actions=[set_properties(k="v")]))["metadata"]
    assert after["etag"] != before["etag"]
    assert after["updated-time"] == before["updated-time"] + 1000
    assert (after["last-commit-version"], after["last-commit-timestamp-ms"]) == (1, START_MS + 1)
    assert after["properties"]["delta.lastUpdateVersion"] == "1"
    assert after["properties"]["delta.lastCommitTimestamp"] == str(START_MS + 1)


async def test_case_155_a_commit_that_changes_only_rows_keeps_the_etag(v1: DeltaClient, house: House) -> None:
    features = (*write.ALL_FEATURES, "domainMetadata", "rowTracking")
    staged = await v1.stage()
    staged.write_first(features=features)
    before = ok(await v1.create(staged, features=features))["metadata"]
    house.clock.advance(1000)
    added = write.add(baseRowId=0, defaultRowCommitVersion=1, stats='{"numRecords":5}')
    high_water_mark = write.domain("delta.rowTracking", {"rowIdHighWaterMark": 4})
    info = staged.stage(1, added, high_water_mark)
    stated = {"action": "set-domain-metadata", "updates": {"delta.rowTracking": {"rowIdHighWaterMark": 4}}}
    after = ok(await v1.commit(staged, info, actions=[stated]))["metadata"]
    assert (after["etag"], after["updated-time"]) == (before["etag"], before["updated-time"])
    assert after["properties"]["delta.rowTracking.rowIdHighWaterMark"] == "4"
    write.publish(staged.folder, info)
    assert ok(await v1.commit(staged, published=1))["metadata"] == after


async def test_spark_may_state_an_outdated_high_water_mark_after_a_lost_race(v1: DeltaClient) -> None:
    """It rewrites its commit with row ids above the winner's, but states the high-water mark of its first attempt."""
    features = (*write.ALL_FEATURES, "domainMetadata", "rowTracking")
    table = await v1.stage()
    table.write_first(features=features)
    ok(await v1.create(table, features=features))

    def append(version: int, first_id: int) -> Body:
        added = write.add(baseRowId=first_id, defaultRowCommitVersion=version, stats='{"numRecords":5}')
        return table.stage(version, added, write.domain("delta.rowTracking", {"rowIdHighWaterMark": first_id + 4}))

    stated = {"action": "set-domain-metadata", "updates": {"delta.rowTracking": {"rowIdHighWaterMark": 4}}}
    ok(await v1.commit(table, append(1, 0), actions=[stated]))
    refuses(await v1.commit(table, append(1, 0), actions=[stated]), 409)
    after = ok(await v1.commit(table, append(2, 5), actions=[stated]))
    assert after["metadata"]["properties"]["delta.rowTracking.rowIdHighWaterMark"] == "9"


async def test_case_156_actions_are_accepted_in_any_order(v1: DeltaClient) -> None:
    for number, order in enumerate(permutations(range(3))):
        table = await v1.make(f"t{number}")
        changed = write.metadata(write.configuration(table.id, k="v"), description="c")
        actions = [
            {"action": "add-commit", "commit": kebab(table.stage(1, changed))},
            set_properties(k="v"),
            comment("c"),
        ]
        assert ok(await v1.update(table, *[actions[at] for at in order]))["latest-table-version"] == 1


async def test_case_157_the_response_is_the_loaded_table(v1: DeltaClient) -> None:
    table = await v1.make()
    ok(await v1.commit(table, table.stage(1)))
    after = ok(await v1.commit(table, table.stage(2)))
    assert [commit["version"] for commit in after["commits"]] == [2, 1]
    assert after["latest-table-version"] == 2
    assert ok(await v1.load()) == after


async def test_case_158_two_changes_in_one_millisecond_have_two_etags(v1: DeltaClient) -> None:
    table = await v1.make()
    first = ok(await v1.update(table, comment("a")))["metadata"]
    second = ok(await v1.update(table, comment("b")))["metadata"]
    assert first["updated-time"] == second["updated-time"]
    assert first["etag"] != second["etag"]


@pytest.mark.parametrize(
    "stated",
    [
        set_properties(k="w"),
        {"action": "remove-properties", "removals": ["k"]},
        comment("d"),
        {"action": "set-columns", "columns": {"type": "struct", "fields": [{**write.COLUMNS[0], "type": "string"}]}},
        {"action": "set-protocol", "protocol": PROTOCOL},
        {"action": "set-partition-columns", "partition-columns": ["id"]},
        {"action": "set-domain-metadata", "updates": {"delta.rowTracking": {"rowIdHighWaterMark": 1}}},
        {"action": "set-domain-metadata", "updates": {"delta.clustering": {"clusteringColumns": [["id"]]}}},
    ],
    ids=lambda stated: stated["action"],
)
async def test_stated_metadata_must_agree_with_the_file(v1: DeltaClient, stated: dict[str, Any]) -> None:
    table = await v1.make()
    changed = write.metadata(write.configuration(table.id, k="v"), description="c")
    refuses(await v1.commit(table, table.stage(1, changed), actions=[stated]), 400, INVALID)
