"""Each kind of update, alone and with others of the same request."""

from __future__ import annotations

import time
from itertools import permutations
from typing import Any

import pytest

from moorage.core.errors import InvalidInput, RequirementFailed
from moorage.formats.iceberg.documents import Document
from moorage.formats.iceberg.table_metadata import created_by, following, parse_table, with_refs_only
from moorage.formats.iceberg.updates import UPDATES
from tests.unit.formats.iceberg.tables import (
    BY_CITY,
    BY_ID,
    NOW_MS,
    PERSISTED,
    SCHEMA,
    UUID,
    add,
    apply,
    set_ref,
    snapshot,
    table,
    with_snapshots,
)

KEY = {"key-id": "k1", "encrypted-key-metadata": "c2VjcmV0"}
STATISTICS = {
    "snapshot-id": 1,
    "statistics-path": "file:///lake/t/metadata/1.puffin",
    "file-size-in-bytes": 10,
    "file-footer-size-in-bytes": 4,
    "blob-metadata": [],
}
SPEC_FIELDS = "updates[0].spec.fields"
BLOB = {"type": "x", "snapshot-id": 1, "sequence-number": 1, "fields": [1]}
WIDER: Document = {
    **SCHEMA,
    "fields": [*SCHEMA["fields"], {"id": 4, "name": "n", "required": False, "type": "decimal(9, 2)"}],
}


def refused(base: Document, *updates: Document, field: str) -> InvalidInput:
    with pytest.raises(InvalidInput) as caught:
        apply(base, *updates)
    assert caught.value.field == field
    return caught.value


def test_every_update_of_the_specification_is_known() -> None:
    assert len(UPDATES) == 23


@pytest.mark.parametrize("action", ["add-wings", None, 7, ["add-schema"]])
def test_an_unknown_update_is_refused(action: Any) -> None:
    refused(table(), {"action": action}, field="updates[0].action")


@pytest.mark.parametrize("action", sorted(UPDATES))
def test_an_update_with_missing_fields_is_refused_with_its_index(action: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        apply(table(), {"action": "set-properties", "updates": {}}, {"action": action})
    assert str(caught.value.field).startswith("updates[1].")


def test_updates_that_change_nothing_return_the_same_document() -> None:
    base = table()
    assert apply(base) is base
    assert apply(base, {"action": "assign-uuid", "uuid": UUID}, {"action": "set-properties", "updates": {}}) is base


def test_updates_do_not_modify_the_original_document() -> None:
    base = with_snapshots(2)
    copy = {key: list(value) if isinstance(value, list) else value for key, value in base.items()}
    apply(base, add(3, parent=2), set_ref(3), {"action": "remove-snapshots", "snapshot-ids": [1]})
    assert base == copy


def test_a_valid_uuid_can_be_assigned() -> None:
    other = "01939c1e-5a6f-7cc1-9d3e-8f5a2b7c4d11"
    assert apply(table(), {"action": "assign-uuid", "uuid": other})["table-uuid"] == other
    refused(table(), {"action": "assign-uuid", "uuid": "me"}, field="updates[0].uuid")


def test_a_format_version_can_only_increase() -> None:
    upgrade = {"action": "upgrade-format-version", "format-version": 3}
    assert apply(table(2), upgrade)["format-version"] == 3
    assert apply(table(2), upgrade)["next-row-id"] == 0
    for wrong in (1, 0, 4):
        refused(table(2), {**upgrade, "format-version": wrong}, field="updates[0].format-version")


def test_version_1_repeats_its_schema_and_spec_until_the_upgrade() -> None:
    old = table(1, spec=BY_CITY)
    assert old["schema"]["fields"] == SCHEMA["fields"]
    assert [field["name"] for field in old["partition-spec"]] == ["city"]
    new = apply(old, {"action": "upgrade-format-version", "format-version": 2})
    assert new.keys().isdisjoint({"schema", "partition-spec"})


def test_a_schema_gets_the_next_id_and_becomes_current_as_the_last_added() -> None:
    after = apply(table(), {"action": "add-schema", "schema": WIDER}, {"action": "set-current-schema", "schema-id": -1})
    assert (after["current-schema-id"], after["last-column-id"]) == (1, 4)
    assert [schema["schema-id"] for schema in after["schemas"]] == [0, 1]


def test_an_existing_schema_is_not_added_again() -> None:
    again = {**WIDER, "schema-id": 9, "fields": [*SCHEMA["fields"], {**WIDER["fields"][3], "type": "decimal(9,2)"}]}
    after = apply(
        table(),
        {"action": "add-schema", "schema": WIDER},
        {"action": "add-schema", "schema": SCHEMA},
        {"action": "add-schema", "schema": again},
        {"action": "set-current-schema", "schema-id": -1},
    )
    assert (len(after["schemas"]), after["current-schema-id"]) == (2, 1)


def test_the_current_schema_must_exist() -> None:
    refused(table(), {"action": "set-current-schema", "schema-id": -1}, field="updates[0].schema-id")
    refused(table(), {"action": "set-current-schema", "schema-id": 5}, field="updates[0].schema-id")


def test_a_partition_column_cannot_be_removed() -> None:
    narrow = {**SCHEMA, "fields": [SCHEMA["fields"][0]]}
    updates = ({"action": "add-schema", "schema": narrow}, {"action": "set-current-schema", "schema-id": -1})
    assert apply(table(), *updates)["current-schema-id"] == 1
    refused(table(spec=BY_CITY), *updates, field="spec.fields.source-id")


def test_old_schemas_can_be_removed_and_the_current_one_cannot() -> None:
    base = apply(table(), {"action": "add-schema", "schema": WIDER}, {"action": "set-current-schema", "schema-id": -1})
    assert [each["schema-id"] for each in apply(base, {"action": "remove-schemas", "schema-ids": [0]})["schemas"]] == [
        1
    ]
    refused(base, {"action": "remove-schemas", "schema-ids": [1]}, field="updates[0].schema-ids")


def test_a_schema_can_be_removed_only_with_its_snapshots() -> None:
    """Otherwise the next new schema would get its id, and readers of that snapshot would see other columns."""
    wider = {"action": "add-schema", "schema": WIDER}
    base = apply(
        table(), wider, {"action": "set-current-schema", "schema-id": -1}, add(1, **{"schema-id": 1}), set_ref(1)
    )
    base = apply(base, {"action": "set-current-schema", "schema-id": 0})
    removal = {"action": "remove-schemas", "schema-ids": [1]}
    with pytest.raises(RequirementFailed, match="snapshot 1"):
        apply(base, removal)
    for updates in permutations([removal, {"action": "remove-snapshots", "snapshot-ids": [1]}]):
        assert [each["schema-id"] for each in apply(base, *updates)["schemas"]] == [0]


def test_a_partition_field_that_is_added_again_keeps_its_id() -> None:
    none = {"action": "add-spec", "spec": {"fields": []}}
    city, default = {"action": "add-spec", "spec": BY_CITY}, {"action": "set-default-spec", "spec-id": -1}
    bucket = {"source-id": 1, "name": "shard", "transform": "bucket[8]"}
    base = apply(table(spec=BY_CITY), none, default)
    both = apply(base, {"action": "add-spec", "spec": {"fields": [bucket, *BY_CITY["fields"]]}}, default)
    assert [field["field-id"] for field in both["partition-specs"][2]["fields"]] == [1001, 1000]
    assert (both["default-spec-id"], both["last-partition-id"]) == (2, 1001)
    assert apply(both, city, default)["default-spec-id"] == 0


@pytest.mark.parametrize(
    ("field", "why"),
    [
        ({"source-id": 9, "name": "x", "transform": "identity"}, "does not exist"),
        ({"source-id": 1, "name": "city", "transform": "bucket[4]"}, "name of another"),
        ({"source-id": 1, "name": "x", "transform": "bucket[0]"}, "not a supported transform"),
        ({"source-id": 1, "name": "x", "transform": "squared"}, "not a supported transform"),
        ({"source-id": 1, "name": "", "transform": "identity"}, "non-empty string"),
    ],
)
def test_an_invalid_partition_field_is_refused(field: Document, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        apply(table(), {"action": "add-spec", "spec": {"fields": [field]}})


def test_no_partition_field_repeats_another() -> None:
    by_city = BY_CITY["fields"][0]
    for again in ({**by_city, "name": "twice"}, {**by_city, "source-id": 1, "name": "id", "field-id": 1000}):
        spec = {"fields": [{**by_city, "field-id": 1000}, again]}
        assert "repeats another" in refused(table(), {"action": "add-spec", "spec": spec}, field=SPEC_FIELDS).message


def test_in_version_1_partition_fields_are_numbered_in_order() -> None:
    spec = {"fields": [{**BY_CITY["fields"][0], "field-id": 1005}]}
    assert apply(table(2), {"action": "add-spec", "spec": spec})["last-partition-id"] == 1005
    refused(table(1), {"action": "add-spec", "spec": spec}, field=SPEC_FIELDS)


def test_old_specs_can_be_removed_and_the_default_one_cannot() -> None:
    base = apply(table(), {"action": "add-spec", "spec": BY_CITY}, {"action": "set-default-spec", "spec-id": -1})
    assert len(apply(base, {"action": "remove-partition-specs", "spec-ids": [0]})["partition-specs"]) == 1
    refused(base, {"action": "remove-partition-specs", "spec-ids": [1]}, field="updates[0].spec-ids")


def test_the_first_sort_order_is_1_and_unsorted_is_0() -> None:
    sort, default = {"action": "add-sort-order", "sort-order": BY_ID}, {"action": "set-default-sort-order"}
    base = apply(table(), sort, {**default, "sort-order-id": -1})
    assert base["default-sort-order-id"] == 1
    back = apply(base, {"action": "add-sort-order", "sort-order": {"order-id": 7, "fields": []}})
    assert [order["order-id"] for order in back["sort-orders"]] == [0, 1]
    assert apply(base, {**default, "sort-order-id": 0})["default-sort-order-id"] == 0
    refused(base, {**default, "sort-order-id": 4}, field="updates[0].sort-order-id")


@pytest.mark.parametrize("change", [{"direction": "up"}, {"null-order": None}, {"source-id": 9}])
def test_an_invalid_sort_order_is_refused(change: Document) -> None:
    order = {"fields": [{**BY_ID["fields"][0], **change}]}
    with pytest.raises(InvalidInput, match=r"updates\[0\]: (a sort field must have|the sort order uses)"):
        apply(table(), {"action": "add-sort-order", "sort-order": order})


@pytest.mark.parametrize("part", ["schema", "spec", "sort-order"])
def test_last_added_refers_only_to_the_same_request(part: str) -> None:
    action = f"set-{'current' if part == 'schema' else 'default'}-{part}"
    why = refused(table(), {"action": action, f"{part}-id": -1}, field=f"updates[0].{part}-id").message
    assert "this request adds none" in why


def test_a_snapshot_that_main_points_to_becomes_current_and_enters_the_log() -> None:
    after = apply(table(), add(1), set_ref(1))
    assert after["current-snapshot-id"] == 1
    assert after["refs"] == {"main": {"snapshot-id": 1, "type": "branch"}}
    assert after["snapshot-log"] == [{"snapshot-id": 1, "timestamp-ms": NOW_MS + 1}]
    assert after["last-sequence-number"] == 1


def test_a_snapshot_on_another_branch_does_not_become_current() -> None:
    after = apply(with_snapshots(1), add(2, parent=1), set_ref(2, "audit"))
    assert (after["current-snapshot-id"], len(after["snapshot-log"])) == (1, 1)


def test_a_snapshot_that_was_current_only_within_the_request_leaves_no_entry_in_the_log() -> None:
    after = apply(with_snapshots(1), add(2, parent=1), set_ref(2), add(3, parent=2), set_ref(3))
    assert [entry["snapshot-id"] for entry in after["snapshot-log"]] == [1, 3]


def test_a_rollback_is_logged_with_the_time_of_the_rollback() -> None:
    after = apply(with_snapshots(2), set_ref(1), now_ms=NOW_MS + 99)
    assert after["snapshot-log"][-1] == {"snapshot-id": 1, "timestamp-ms": NOW_MS + 99}


def test_a_snapshot_based_on_an_older_version_is_a_conflict() -> None:
    for version, stale in ((2, snapshot(9, sequence=2, parent=1)), (3, snapshot(9, parent=2))):
        rows = {"first-row-id": 5, "added-rows": 1} if version == 3 else {}
        with pytest.raises(RequirementFailed):
            apply(with_snapshots(2, version), {"action": "add-snapshot", "snapshot": {**stale, **rows}})


def test_a_batch_of_an_ingest_is_accepted_once_and_in_order() -> None:
    def batch(number: int, app_id: str = "ingest-1") -> Document:
        return {"operation": "append", "moorage.app-id": app_id, "moorage.batch": str(number)}

    base = apply(with_snapshots(1), add(2, parent=1, summary=batch(10)), set_ref(2))
    for repeated in (10, 9):
        refused(base, add(3, parent=2, summary=batch(repeated)), field="updates[0].snapshot.summary")
    without_number: tuple[Document, ...] = ({}, {"moorage.batch": "ten"}, {"moorage.batch": "9" * 5000})
    others = [{"operation": "append", "moorage.app-id": "ingest-1", **given} for given in without_number]
    for accepted in (batch(11), batch(10, "ingest-2"), *others):
        assert len(apply(base, add(3, parent=2, summary=accepted))["snapshots"]) == 3


def test_version_3_counts_rows() -> None:
    base = with_snapshots(2, 3)
    assert base["next-row-id"] == 20
    assert apply(base, add(3, parent=2, **{"first-row-id": 50, "added-rows": 5}))["next-row-id"] == 55
    refused(base, add(3, parent=2), field="updates[0].snapshot.first-row-id")
    refused(base, add(3, parent=2, **{"first-row-id": 20}), field="updates[0].snapshot.added-rows")


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"snapshot-id": 1}, "snapshot.snapshot-id"),
        ({"snapshot-id": 2**63}, "snapshot-id"),
        ({"snapshot-id": True}, "snapshot-id"),
        ({"manifest-list": None}, "manifest-list"),
        ({"summary": {"operation": "explode"}}, "snapshot.summary.operation"),
        ({"summary": {}}, "snapshot.summary.operation"),
        ({"timestamp-ms": "now"}, "timestamp-ms"),
        ({"first-row-id": -1, "added-rows": 1}, "snapshot.first-row-id"),
        ({"first-row-id": 1}, "snapshot.added-rows"),
        ({"added-rows": -1}, "snapshot.added-rows"),
    ],
)
def test_a_snapshot_that_readers_could_not_read_is_refused(changes: Document, field: str) -> None:
    update = {"action": "add-snapshot", "snapshot": {**snapshot(3, parent=2), **changes}}
    refused(with_snapshots(2), update, field=f"updates[0].{field}")


def test_refs_point_to_snapshots_that_exist() -> None:
    refused(with_snapshots(1), set_ref(9), field="updates[0].snapshot-id")
    refused(with_snapshots(1), set_ref(1, kind="tag"), field="updates[0].type")
    refused(with_snapshots(1), set_ref(1, "v1", "label"), field="updates[0].type")
    refused(with_snapshots(1), set_ref(1, "v1", "tag", **{"max-ref-age-ms": 0}), field="updates[0].max-ref-age-ms")
    kept = apply(with_snapshots(1), set_ref(1, "v1", "tag", **{"max-ref-age-ms": 5}))["refs"]["v1"]
    assert kept == {"snapshot-id": 1, "type": "tag", "max-ref-age-ms": 5}


def test_without_main_there_is_no_current_snapshot() -> None:
    after = apply(with_snapshots(1), {"action": "remove-snapshot-ref", "ref-name": "main"})
    assert (after.get("current-snapshot-id"), after["refs"]) == (None, {})
    assert apply(after, {"action": "remove-snapshot-ref", "ref-name": "main"}) is after


def test_removing_snapshots_removes_their_refs_and_statistics_and_prunes_the_log() -> None:
    base = apply(with_snapshots(3), set_ref(1, "old", "tag"), {"action": "set-statistics", "statistics": STATISTICS})
    after = apply(base, {"action": "remove-snapshots", "snapshot-ids": [2, 1]})
    assert [each["snapshot-id"] for each in after["snapshots"]] == [3]
    assert (list(after["refs"]), after["statistics"]) == (["main"], [])
    assert [entry["snapshot-id"] for entry in after["snapshot-log"]] == [3]


def test_statistics_are_replaced_by_snapshot() -> None:
    for part in ("statistics", "partition-statistics"):
        newer = {**STATISTICS, "statistics-path": "file:///lake/t/metadata/2.puffin"}
        base = apply(with_snapshots(1), {"action": f"set-{part}", part: STATISTICS})
        after = apply(base, {"action": f"set-{part}", part: newer})
        assert after[part] == [newer]
        assert apply(after, {"action": f"remove-{part}", "snapshot-id": 1})[part] == []


def test_properties_can_be_set_and_removed() -> None:
    base = apply(table(), {"action": "set-properties", "updates": {"a": "1", "b": "2"}})
    assert apply(base, {"action": "remove-properties", "removals": ["a", "none"]})["properties"] == {
        **PERSISTED,
        "b": "2",
    }
    refused(table(), {"action": "set-properties", "updates": {"a": 1}}, field="updates[0].updates")


def test_encryption_keys_are_added_once() -> None:
    base = apply(table(3), {"action": "add-encryption-key", "encryption-key": KEY})
    assert apply(base, {"action": "add-encryption-key", "encryption-key": {**KEY, "properties": {}}}) is base
    assert base["encryption-keys"] == [KEY]
    other = {"action": "add-encryption-key", "encryption-key": {**KEY, "encrypted-key-metadata": "b3RoZXI="}}
    refused(base, other, field="updates[0].encryption-key.value-id")
    assert "encryption-keys" not in apply(base, {"action": "remove-encryption-key", "key-id": "k1"})


def test_a_location_has_no_slash_at_its_end() -> None:
    assert apply(table(), {"action": "set-location", "location": "file:///x/"})["location"] == "file:///x"


def test_the_time_of_the_last_update_never_decreases() -> None:
    """Java refuses a table if its log is newer than its last update."""
    ahead = {**with_snapshots(1), "last-updated-ms": NOW_MS + 10_000_000}
    assert apply(ahead, {"action": "set-properties", "updates": {"a": "1"}})["last-updated-ms"] == NOW_MS + 10_000_000


def test_the_snapshot_log_uses_the_servers_clock_and_never_decreases() -> None:
    """A wrong clock of one writer must not prevent others from reading or writing the table."""
    found = apply(table(), add(1, **{"timestamp-ms": NOW_MS + 100_000}), set_ref(1), now_ms=NOW_MS + 5)
    found = apply(found, add(2, parent=1, **{"timestamp-ms": NOW_MS - 100_000}), set_ref(2), now_ms=NOW_MS + 6)
    found = apply(found, set_ref(1), now_ms=NOW_MS + 7)
    assert [entry["timestamp-ms"] - NOW_MS for entry in found["snapshot-log"]] == [5, 5, 7]
    assert [each["timestamp-ms"] - NOW_MS for each in found["snapshots"]] == [100_000, -100_000]
    assert found["last-updated-ms"] == NOW_MS + 7
    assert parse_table(found) == found


def test_version_1_has_no_sequence_numbers() -> None:
    found = apply(table(1), {"action": "add-snapshot", "snapshot": snapshot(1, sequence=7)})
    assert (found["last-sequence-number"], "sequence-number" in found["snapshots"][0]) == (0, False)


@pytest.mark.parametrize("missing", ["snapshot-id", "statistics-path", "file-footer-size-in-bytes", "blob-metadata"])
def test_statistics_that_readers_could_not_read_are_refused(missing: str) -> None:
    whole = {**STATISTICS, "blob-metadata": [BLOB]}
    assert apply(with_snapshots(3), {"action": "set-statistics", "statistics": whole})["statistics"] == [whole]
    refused(
        with_snapshots(3),
        {"action": "set-statistics", "statistics": {name: whole[name] for name in whole if name != missing}},
        field=f"updates[0].{missing}",
    )
    refused(
        with_snapshots(3),
        {"action": "set-statistics", "statistics": {**whole, "blob-metadata": [{**BLOB, "fields": None}]}},
        field="updates[0].fields",
    )


def test_replaced_metadata_files_are_logged_up_to_a_length() -> None:
    found = table(properties={"write.metadata.previous-versions-max": "2"})
    for number in range(4):
        found = following({**found, "last-updated-ms": number}, found, f"v{number}.json")
    assert [entry["metadata-file"] for entry in found["metadata-log"]] == ["v2.json", "v3.json"]
    assert [entry["timestamp-ms"] for entry in found["metadata-log"]] == [1, 2]


def test_snapshots_without_a_ref_are_omitted_on_request() -> None:
    base = apply(with_snapshots(3), set_ref(1, "v1", "tag"))
    assert [each["snapshot-id"] for each in with_refs_only(base)["snapshots"]] == [1, 3]


def staged(*updates: Document) -> Document:
    return created_by(
        [
            {"action": "assign-uuid", "uuid": UUID},
            {"action": "upgrade-format-version", "format-version": 3},
            {"action": "add-schema", "schema": SCHEMA},
            {"action": "set-current-schema", "schema-id": -1},
            {"action": "add-spec", "spec": {"spec-id": 0, "fields": []}},
            {"action": "set-default-spec", "spec-id": -1},
            {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
            {"action": "set-default-sort-order", "sort-order-id": -1},
            *updates,
        ],
        uuid="unused",
        now_ms=NOW_MS,
    )


def test_the_updates_of_a_staged_creation_make_a_complete_table() -> None:
    # As in the reference, the updates must have the properties that a staged table was created with.
    assert staged({"action": "set-location", "location": "file:///lake/t"}) == {**table(3), "properties": {}}
    with pytest.raises(InvalidInput, match="no location"):
        staged()


def test_a_new_table_may_set_spec_and_order_before_the_current_schema() -> None:
    updates: list[Document] = [
        {"action": "assign-uuid", "uuid": UUID},
        {"action": "add-schema", "schema": SCHEMA},
        {"action": "add-spec", "spec": BY_CITY},
        {"action": "set-default-spec", "spec-id": 0},
        {"action": "add-sort-order", "sort-order": BY_ID},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-location", "location": "file:///lake/t"},
    ]
    made = created_by([*updates, {"action": "set-current-schema", "schema-id": 0}], uuid="unused", now_ms=NOW_MS)
    assert (made["current-schema-id"], made["default-spec-id"], made["default-sort-order-id"]) == (0, 0, 1)
    with pytest.raises(InvalidInput, match="no current schema"):
        created_by(updates, uuid="unused", now_ms=NOW_MS)
    with pytest.raises(InvalidInput, match="the table needs a sort order before it can have snapshots"):
        created_by([*updates[:-3], add(1), *updates[-3:]], uuid="unused", now_ms=NOW_MS)


def test_the_cost_of_a_commit_is_linear_in_its_updates() -> None:
    def seconds(count: int) -> float:
        updates = [
            update
            for id in range(1, count + 1)
            for update in (add(id), set_ref(id), {"action": "set-properties", "updates": {f"p{id}": "x"}})
        ]
        base = table()
        started = time.process_time()
        found = apply(base, *updates)
        took = time.process_time() - started
        assert (len(found["snapshots"]), len(found["properties"]), len(found["snapshot-log"])) == (count, count + 1, 1)
        return took

    few, many = (min(seconds(count) for _ in range(3)) for count in (500, 8_000))
    assert many < 64 * few  # 16 times the updates: about 16 times the work, not 256 times
